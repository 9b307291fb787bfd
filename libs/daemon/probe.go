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

// probeTimeout is how long a process may take to report its readiness.
const probeTimeout = 5 * time.Second

// maxReason limits how much of a response is shown, in bytes.
const maxReason = 16 << 10

// Probe is where a process reports its readiness.
type Probe struct {
	// Address is the listen address, HOST:PORT; for an unspecified address, Ask uses the loopback
	// address.
	Address string
	// TLS makes Ask use HTTPS.
	TLS bool
	// CAFile and CertFile are PEM files of the CA that signed the server's certificate, and of that
	// certificate itself; Ask refuses a server certificate that matches neither. If neither file
	// can be read, Ask accepts any certificate at a loopback address: only programs on this machine
	// can answer there, and Ask sends no secrets. At other addresses that is an error.
	CAFile, CertFile string
}

// Ask returns nil if the process is ready, and otherwise the reason, as the process states it if it
// does. It takes 5 s at most.
func (p Probe) Ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(p.Address)
	if err != nil {
		return fmt.Errorf("the address at which it listens, %q, is not HOST:PORT", p.Address)
	}
	if port == "0" {
		return fmt.Errorf("the address at which it listens, %q, has no fixed port", p.Address)
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
		return fmt.Errorf("%s does not report its readiness to anonymous clients (%s): allow reading /readyz without a credential, for example with --anonymous-auth-paths=/livez,/readyz", address, response.Status)
	}
	return fmt.Errorf("not ready: %s", strings.TrimSpace(string(body)))
}

// reachable returns the host at which to reach a process that listens at host.
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

// trust returns the TLS configuration with the accepted certificates.
func (p Probe) trust(host string) (*tls.Config, error) {
	authorities, known := x509.NewCertPool(), false
	if data, err := os.ReadFile(p.CAFile); err == nil {
		known = authorities.AppendCertsFromPEM(data)
	}
	if data, err := os.ReadFile(p.CertFile); err == nil {
		// The server's own certificate is accepted too, whichever CA signed it.
		known = authorities.AppendCertsFromPEM(data) || known
	}
	if !known {
		address, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !address.IsLoopback()) {
			return nil, fmt.Errorf("neither the CA certificate (%q) nor the server's own (%q) can be read, and %s is not a loopback address", p.CAFile, p.CertFile, host)
		}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		// The name does not matter at the process's own address; VerifyConnection checks the
		// signature.
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

// healthcheck returns the subcommand that asks the running process whether it is ready.
func (c Command) healthcheck() *cobra.Command {
	cmd := &cobra.Command{
		Use: "healthcheck", Short: "Ask the running process whether it is ready: exits with 0 if so, otherwise with 1 and the reason",
		Long: `Ask the process that runs with the same flags and environment whether it is ready. Exits with 0
if so, otherwise with 1 and the reason. For images without another program that could ask.`,
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
