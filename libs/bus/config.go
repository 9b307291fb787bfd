package bus

import (
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says where NATS is and who connects.
//
// There are two ways to say who. A user that NATS itself knows, which only the apiservers are,
// shows Seed, or User and Password. Everybody else shows what he shows to the apiservers too,
// a bearer token or a client certificate: NATS has them say who that is and what he may do.
type Config struct {
	// URLs are the servers, for example tls://10.0.0.1:4222; any of them will do. With one of tls://, or
	// with an authority or a client certificate in files, nothing is sent to any of them without TLS.
	URLs []string
	// Insecure allows servers of other machines without TLS. Without it, Connect and Dial refuse every URL
	// that is neither a loopback address nor localhost, and no such server is connected to later.
	Insecure bool
	// Name is shown by the server in its list of connections.
	Name string
	// Seed is the private key of a user that NATS knows, as callout.Keys has it; User and
	// Password are another way. Empty for none.
	Seed           []byte
	User, Password string
	// Token is a bearer token, TokenFile a file that holds one, which is read at each
	// connect and wins over Token. Empty for none.
	Token, TokenFile string
	// CAFile is a PEM file of the authorities by which servers are certified; with one
	// nothing is sent to a server without TLS. CertFile and KeyFile are PEM files of the
	// client certificate, read at each connect. Empty for none.
	CAFile, CertFile, KeyFile string
	// CA, Cert and Key are the same as PEM, for who has no files.
	CA, Cert, Key []byte
	// InProcess, if set, is used in place of URLs: it opens a connection to a server in this
	// process.
	InProcess func() (net.Conn, error)
	// MaxReconnectDelay is the longest wait between two attempts to reach a server; 5 s if 0.
	MaxReconnectDelay time.Duration
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer, if set, gets the connection's metrics.
	Registerer prometheus.Registerer
}

// HasCredentials says whether anything is set by which NATS can know who connects.
func (c Config) HasCredentials() bool {
	return len(c.Seed) > 0 || c.User != "" || c.Token != "" || c.TokenFile != "" || c.CertFile != "" || len(c.Cert) > 0
}

// Servers are the URLs as they may be shown: without the users, passwords and tokens that a URL of
// NATS may hold.
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
