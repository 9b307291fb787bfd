package bus

import (
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config holds the addresses of the NATS servers and the client's credentials.
//
// There are two kinds of credentials. A user that NATS itself knows, which only the apiservers are,
// presents Seed, or User and Password. All other clients present the credential that they present
// to the apiservers too: a bearer token or a client certificate. NATS then asks the apiservers for
// the user and its rights.
type Config struct {
	// URLs are the servers, for example tls://10.0.0.1:4222; any of them will do. If one URL is
	// tls:// or wss://, or if CA, CAFile, CertFile or KeyFile is set, the client sends nothing to
	// any server without TLS.
	URLs []string
	// Insecure allows servers on other machines without TLS. Without it, Connect and Dial refuse
	// every URL that is neither a loopback address nor localhost, and never connect to such a
	// server later.
	Insecure bool
	// Name is shown in the server's list of connections.
	Name string
	// Seed is the private key of a user that NATS knows, as callout.Keys holds it. User and
	// Password are the alternative. Empty for none.
	Seed           []byte
	User, Password string
	// Token is a bearer token. TokenFile is a file that holds one; it is read at each connect and
	// takes precedence over Token. Empty for none.
	Token, TokenFile string
	// CAFile is a PEM file of the CA certificates that sign server certificates; if it is set, the
	// client sends nothing to a server without TLS. CertFile and KeyFile are the PEM files of the
	// client certificate, read at each connect. Empty for none.
	CAFile, CertFile, KeyFile string
	// CA, Cert and Key are the same in PEM, for callers that have no files.
	CA, Cert, Key []byte
	// InProcess, if set, replaces URLs: it opens a connection to a server in this process.
	InProcess func() (net.Conn, error)
	// MaxReconnectDelay is the longest wait between two attempts to reach a server; 0 means 5 s.
	MaxReconnectDelay time.Duration
	// ReadPause is the least time between two reads from the server while little arrives at a time; 0 means none. What
	// arrives meanwhile is read at once: that costs up to ReadPause, and saves CPU. Connections in this process and
	// the first second of a connection have no pauses.
	ReadPause time.Duration
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer, if set, receives the connection's metrics.
	Registerer prometheus.Registerer
}

// HasCredentials reports whether any credential is set by which NATS can identify the client.
func (c Config) HasCredentials() bool {
	return len(c.Seed) > 0 || c.User != "" || c.Token != "" || c.TokenFile != "" || c.CertFile != "" || len(c.Cert) > 0
}

// Servers returns the URLs in a form that is safe to print: without the user names, passwords and
// tokens that a NATS URL may contain.
func (c Config) Servers() string {
	var shown []string
	for _, url := range c.servers() {
		if at := strings.LastIndexByte(url, '@'); at >= 0 {
			scheme, _, ok := strings.Cut(url[:at], "://")
			if ok {
				scheme += "://"
			} else {
				scheme = ""
			}
			url = scheme + "xxxxx" + url[at:]
		}
		shown = append(shown, url)
	}
	return strings.Join(shown, ", ")
}
