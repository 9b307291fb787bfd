package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// probeTimeout is how long a process may take to say whether it is ready.
const probeTimeout = 5 * time.Second

// maxReason bounds what is shown of an answer, in bytes.
const maxReason = 16 << 10

// Probe says where a process tells whether it is ready.
type Probe struct {
	// Address is where it listens, HOST:PORT; one of all addresses is asked at the loopback one.
	Address string
	// TLS has it asked by HTTPS.
	TLS bool
	// CAFile and CertFile are PEM files of the authority that its certificate is of, and of that
	// certificate itself: one that is neither is refused. Where neither file can be read, any
	// certificate will do at a loopback address, since only who is on this machine can answer
	// there, and nothing secret is sent; at others that is an error.
	CAFile, CertFile string
}

// Ask gives nil if the process is ready, else why it is not, in its own words if it has any. It
// takes 5 s at most.
func (p Probe) Ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		return fmt.Errorf("the address at which it listens, %q, is not HOST:PORT", p.Address)
	}
	if port == "0" {
		return fmt.Errorf("the address at which it listens, %q, has no port that is known to others", p.Address)
	}
	address := net.JoinHostPort(reachable(host), port)
	transport := &http.Transport{DisableKeepAlives: true}
	url := "http://" + address + "/readyz?verbose"
	if p.TLS {
		url = "https://" + address + "/readyz?verbose"
		if transport.TLSClientConfig, err = p.trust(reachable(host)); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("it does not answer at %s within %v", address, probeTimeout)
		}
		return fmt.Errorf("it does not answer: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReason))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", address, err)
	}
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s does not tell everybody whether it is ready (%s): have it let /readyz be read without a credential, for example by --anonymous-auth-paths=/livez,/readyz", address, response.Status)
	}
	return fmt.Errorf("not ready: %s", strings.TrimSpace(string(body)))
}

// reachable is the host at which a process is asked that listens at a host.
func reachable(host string) string {
	address, err := netip.ParseAddr(host)
	switch {
	case host == "" || err == nil && address.IsUnspecified() && address.Is4():
		return "127.0.0.1"
	case err == nil && address.IsUnspecified():
		return "::1"
	}
	return host
}

// trust says which certificates will do.
func (p Probe) trust(host string) (*tls.Config, error) {
	authorities, known := x509.NewCertPool(), false
	if data, err := os.ReadFile(p.CAFile); err == nil {
		known = authorities.AppendCertsFromPEM(data)
	}
	if data, err := os.ReadFile(p.CertFile); err == nil {
		// The certificate itself will do, too, whoever signed it.
		known = authorities.AppendCertsFromPEM(data) || known
	}
	if !known {
		address, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !address.IsLoopback()) {
			return nil, fmt.Errorf("neither the authority's certificate (%q) nor the server's own (%q) can be read, and %s is no loopback address", p.CAFile, p.CertFile, host)
		}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The name is of no matter at the process's own address; who signed is seen below.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if !known {
				return nil
			}
			between := x509.NewCertPool()
			for _, cert := range state.PeerCertificates[1:] {
				between.AddCert(cert)
			}
			_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: authorities, Intermediates: between})
			return err
		},
	}, nil
}

// healthcheck is the subcommand that asks the process whether it is ready.
func (c Command) healthcheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "healthcheck", Short: "Ask the running process whether it is ready: ends with 0 if so, else with 1 and the reason",
		Long: `Ask the process that runs with the same flags and environment whether it is ready. It ends with 0
if so, else with 1 and the reason. It is for images that have no other program to ask with.`,
		Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := FromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return c.Probe().Ask(cmd.Context())
		},
	}
	c.flags(cmd, new(string), new(string))
	return cmd
}
