package join

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

const (
	// tolerated is by how much two clocks may differ before it is worth telling.
	tolerated = time.Minute
	// dateWait is how long a server may take to say what time it is.
	dateWait = 5 * time.Second
)

// caller is who a request was sent as, to whom.
type caller struct {
	// file is the bootstrap kubeconfig.
	file string
	// config is how the apiserver is reached, with everything in memory.
	config *rest.Config
	// node says that the node's own certificate was shown, else what the file has.
	node bool
	// ahead is by how much the server's clock was ahead; nil if it has not been heard.
	ahead *time.Duration
}

func (c *caller) heard(ahead time.Duration) { c.ahead = &ahead }

// who is whom the server knows the caller as.
func (c *caller) who() string {
	if c.node {
		return "the node's certificate"
	}
	// The first part of a bootstrap token is public.
	if id := regexp.MustCompile(`^([a-z0-9]{6})\.[a-z0-9]{16}$`).FindStringSubmatch(c.config.BearerToken); id != nil {
		return "the bootstrap token " + id[1]
	}
	return "what the bootstrap kubeconfig shows"
}

// explain makes of what went wrong with a request one sentence that says what it was, and what is
// to be done. The error below it stays.
func (c *caller) explain(ctx context.Context, err error) error {
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var hostname x509.HostnameError
	switch {
	case apierrors.IsUnauthorized(err):
		return c.unauthorized(err)
	case apierrors.IsForbidden(err) && c.node:
		return said(err, "the node may not ask for its next certificate at %s: %s", c.config.Host, reason(err))
	case apierrors.IsForbidden(err):
		return said(err, "%s may not ask for a node's certificate at %s, since the ClusterRoleBindings by which nodes join are missing or are for another group (%s): `garboard token create` makes them",
			c.who(), c.config.Host, reason(err))
	case errors.As(err, &authority):
		return c.unknownAuthority(err, authority.Cert)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return c.notNow(ctx, err, invalid.Cert)
	case errors.As(err, &hostname):
		return said(err, "the certificate of the apiserver at %s is not for that address (%s): name it by one of those, or give the apiserver a certificate that has it (--hosts)",
			c.config.Host, hostname.Error())
	case apierrors.ReasonForError(err) != "":
		return said(err, "the apiserver at %s answers: %s", c.config.Host, reason(err))
	}
	return said(err, "the apiserver at %s cannot be reached: %s", c.config.Host, cause(err))
}

func (c *caller) unauthorized(err error) error {
	clock := ""
	if c.ahead != nil && abs(*c.ahead) > tolerated {
		clock = fmt.Sprintf("; this machine's clock is %s that of the apiserver, which may be why", skew(*c.ahead))
	}
	if c.node {
		return said(err, "the apiserver at %s does not take the node's certificate (401 Unauthorized)%s", c.config.Host, clock)
	}
	return said(err, "the apiserver at %s does not take %s (401 Unauthorized): it is wrong, was deleted or has expired; make one with `garboard token create` and put it into %s%s",
		c.config.Host, c.who(), c.file, clock)
}

func (c *caller) unknownAuthority(err error, shown *x509.Certificate) error {
	trusted := "which trusts the authorities of this system"
	if known := firstCertificate(c.config.CAData); known != nil {
		trusted = "which trusts " + described(known)
	}
	signer := "another authority"
	if shown != nil {
		signer = fmt.Sprintf("%q", shown.Issuer.String())
		if verification, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			for _, cert := range verification.UnverifiedCertificates {
				if cert.IsCA && bytes.Equal(cert.RawSubject, shown.RawIssuer) {
					signer = described(cert)
				}
			}
		}
	}
	return said(err, "the certificate of the apiserver at %s is signed by %s and not by the authority in %s, %s: the address is another plane's, or the plane has a new authority, whose ca.crt must be put into the file",
		c.config.Host, signer, c.file, trusted)
}

// notNow says why a server's certificate is not good at the present time: by the server's clock it
// may well be.
func (c *caller) notNow(ctx context.Context, err error, cert *x509.Certificate) error {
	now := time.Now()
	when := fmt.Sprintf("ended on %s", stamp(cert.NotAfter))
	if now.Before(cert.NotBefore) {
		when = fmt.Sprintf("begins on %s", stamp(cert.NotBefore))
	}
	about := fmt.Sprintf("the certificate of the apiserver at %s %s, and by this machine's clock it is %s", c.config.Host, when, stamp(now))
	ahead, ok := c.askTime(ctx)
	switch {
	case !ok:
		return said(err, "%s: set the clock, if it is wrong, or else renew the certificate", about)
	case abs(ahead) > tolerated:
		return said(err, "%s, which is %s that of the apiserver: set the clock", about, skew(ahead))
	}
	return said(err, "%s, as by that of the apiserver: renew its certificate", about)
}

// askTime asks a server whose certificate cannot be verified what time it is, for a sentence: it
// is sent no credential, and nothing else of its answer is looked at.
func (c *caller) askTime(ctx context.Context) (time.Duration, bool) {
	ctx, cancel := context.WithTimeout(ctx, dateWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimSuffix(c.config.Host, "/")+"/readyz", nil)
	if err != nil {
		return 0, false
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	sent := time.Now()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, false
	}
	_ = answer.Body.Close()
	return serverAhead(answer, sent, time.Now())
}

// sentence is an error that says in one sentence what is wrong.
type sentence struct {
	text string
	err  error
}

func (s *sentence) Error() string { return s.text }

func (s *sentence) Unwrap() error { return s.err }

func said(err error, format string, args ...any) error {
	return &sentence{text: fmt.Sprintf(format, args...), err: err}
}

// reason is what the apiserver says.
func reason(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return status.Status().Message
	}
	return err.Error()
}

// cause is an error without what was asked for, which is always the same.
func cause(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if _, after, ok := strings.Cut(text, `": `); ok && strings.Contains(text[:len(text)-len(after)], ` "http`) {
		return after
	}
	return text
}

// skew says how this machine's clock is off that of a server which is so far ahead.
func skew(ahead time.Duration) string {
	if ahead > 0 {
		return span(ahead) + " behind"
	}
	return span(-ahead) + " ahead of"
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// span is a duration as people say it.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return fmt.Sprintf("%d days", d/day)
	}
	return d.Round(time.Second).String()
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func firstCertificate(text []byte) *x509.Certificate {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return cert
}

// described names a certificate so that it can be told from another one of the same subject: as
// `openssl x509 -fingerprint -sha256` does.
func described(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	var hex []string
	for _, b := range sum {
		hex = append(hex, fmt.Sprintf("%02X", b))
	}
	return fmt.Sprintf("%q (SHA-256 %s)", cert.Subject.String(), strings.Join(hex, ":"))
}
