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
	// tolerated is the difference between two clocks below which it is not mentioned.
	tolerated = time.Minute
	// dateWait bounds how long a server may take to report its time.
	dateWait = 5 * time.Second
)

// caller is the identity under which a request was sent, and its target.
type caller struct {
	// file is the path of the bootstrap kubeconfig.
	file string
	// config is the connection to the apiserver, with all credentials in memory.
	config *rest.Config
	// node reports that the node's own certificate was presented, rather than the credential in the
	// file.
	node bool
	// ahead is how far the server's clock is ahead; nil if it is not known.
	ahead *time.Duration
}

func (c *caller) heard(ahead time.Duration) { c.ahead = &ahead }

// name returns how the server knows the caller.
func (c *caller) name() string {
	if c.node {
		return "the node's certificate"
	}
	// The first part of a bootstrap token is public.
	if id := regexp.MustCompile(`^([a-z0-9]{6})\.[a-z0-9]{16}$`).FindStringSubmatch(c.config.BearerToken); id != nil {
		return "the bootstrap token " + id[1]
	}
	return "the credential in the bootstrap kubeconfig"
}

// at returns where the apiserver was called, with a space before it; empty if only over NATS.
func (c *caller) at() string {
	if c.config.Host == "" {
		return ""
	}
	return " at " + c.config.Host
}

// shower returns what shows a certificate to the caller.
func (c *caller) shower() string {
	if c.config.Host == "" {
		return "NATS"
	}
	return "the apiserver" + c.at()
}

// explain turns the error of a request into one sentence that says what went wrong and what to do.
// The sentence wraps err.
func (c *caller) explain(ctx context.Context, err error) error {
	var authority x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var hostname x509.HostnameError
	switch {
	case apierrors.IsUnauthorized(err):
		return c.unauthorized(err)
	case apierrors.IsForbidden(err) && c.node:
		return said(err, "the node may not ask for its next certificate%s: %s", c.at(), reason(err))
	case apierrors.IsForbidden(err):
		return said(err, "%s may not ask for a node's certificate%s, since the ClusterRoleBindings by which nodes join are missing or are for another group (%s): `garboard token create` makes them",
			c.name(), c.at(), reason(err))
	case errors.As(err, &authority):
		return c.unknownAuthority(err, authority.Cert)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return c.notNow(ctx, err, invalid.Cert)
	case errors.As(err, &hostname):
		return said(err, "the certificate of %s is not for that address (%s): name it by one of those, or give the apiserver a certificate that has it (--hosts)",
			c.shower(), hostname.Error())
	case apierrors.ReasonForError(err) != "":
		return said(err, "the apiserver%s answers: %s", c.at(), reason(err))
	}
	return said(err, "the apiserver%s cannot be reached: %s", c.at(), cause(err))
}

func (c *caller) unauthorized(err error) error {
	clock := ""
	if c.ahead != nil && abs(*c.ahead) > tolerated {
		clock = fmt.Sprintf("; this machine's clock is %s that of the apiserver, which may be why", skew(*c.ahead))
	}
	if c.node {
		return said(err, "the apiserver%s does not take the node's certificate (401 Unauthorized)%s", c.at(), clock)
	}
	return said(err, "the apiserver%s does not take %s (401 Unauthorized): it is wrong, was deleted or has expired; make one with `garboard token create` and put it into %s%s",
		c.at(), c.name(), c.file, clock)
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
	return said(err, "the certificate of %s is signed by %s and not by the authority in %s, %s: the address is another plane's, or the plane has a new authority, whose ca.crt must be put into the file",
		c.shower(), signer, c.file, trusted)
}

// notNow explains why a server's certificate is not valid at present: by the server's clock it may
// well be.
func (c *caller) notNow(ctx context.Context, err error, cert *x509.Certificate) error {
	now := time.Now()
	when := fmt.Sprintf("ended on %s", stamp(cert.NotAfter))
	if now.Before(cert.NotBefore) {
		when = fmt.Sprintf("begins on %s", stamp(cert.NotBefore))
	}
	about := fmt.Sprintf("the certificate of %s %s, and by this machine's clock it is %s", c.shower(), when, stamp(now))
	ahead, ok := c.askTime(ctx)
	switch {
	case !ok:
		return said(err, "%s: set the clock, if it is wrong, or else renew the certificate", about)
	case abs(ahead) > tolerated:
		return said(err, "%s, which is %s that of the apiserver: set the clock", about, skew(ahead))
	}
	return said(err, "%s, as by that of the apiserver: renew its certificate", about)
}

// askTime asks a server whose certificate cannot be verified for its time, for a sentence. It sends
// no credential and ignores everything else in the response.
func (c *caller) askTime(ctx context.Context) (time.Duration, bool) {
	ctx, cancel := context.WithTimeout(ctx, dateWait)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimSuffix(c.config.Host, "/")+"/readyz", nil)
	if err != nil {
		return 0, false
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
	}
	sent := time.Now()
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return 0, false
	}
	_ = answer.Body.Close()
	return serverAhead(answer, sent, time.Now())
}

// sentence is an error whose text is one sentence about what is wrong.
type sentence struct {
	text string
	err  error
}

func (s *sentence) Error() string { return s.text }

func (s *sentence) Unwrap() error { return s.err }

func said(err error, format string, args ...any) error {
	return &sentence{text: fmt.Sprintf(format, args...), err: err}
}

// reason returns the apiserver's message.
func reason(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return status.Status().Message
	}
	return err.Error()
}

// cause returns the text of an error without the request, which is always the same.
func cause(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if _, after, ok := strings.Cut(text, `": `); ok && strings.Contains(text[:len(text)-len(after)], ` "http`) {
		return after
	}
	return text
}

// skew describes how far this machine's clock is from that of a server which is ahead by the given
// time.
func skew(ahead time.Duration) string {
	if ahead > 0 {
		return span(ahead) + " behind"
	}
	return span(-ahead) + " ahead of"
}

func abs(d time.Duration) time.Duration { return max(d, -d) }

// span formats a duration for people.
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

// described identifies a certificate by its subject and the fingerprint that `openssl x509
// -fingerprint -sha256` prints, to tell it from another one with the same subject.
func described(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	var hex []string
	for _, b := range sum {
		hex = append(hex, fmt.Sprintf("%02X", b))
	}
	return fmt.Sprintf("%q (SHA-256 %s)", cert.Subject.String(), strings.Join(hex, ":"))
}
