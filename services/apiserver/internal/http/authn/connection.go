package authn

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// Certified tells on what a verified client certificate depends.
type Certified struct {
	// Authority stands for the authority at the end of the certificate's chain: its name and its key.
	Authority string
	// Ends is when the first certificate of the chain expires.
	Ends time.Time
}

// Connection is the client of a connection that carries requests and that was authenticated when it
// began, as those over NATS are.
type Connection struct {
	User User
	// Certificate is zero if the client did not present one.
	Certificate Certified
}

// authorityBytes is how much of a digest stands for an authority.
const authorityBytes = 16

// authorityOf returns what stands for an authority. Its next certificate for the same name and key is the
// same authority.
func authorityOf(cert *x509.Certificate) string {
	hash := sha256.New()
	hash.Write(cert.RawSubject) // DER contains its own length
	hash.Write(cert.RawSubjectPublicKeyInfo)
	return base64.RawURLEncoding.EncodeToString(hash.Sum(nil)[:authorityBytes])
}

type connectionKey struct{}

// WithConnection returns the context of a request that a connection carries. A request without a
// credential of its own is then one of the connection's client, if that presented a certificate.
func WithConnection(ctx context.Context, connection Connection) context.Context {
	return context.WithValue(ctx, connectionKey{}, connection)
}

// connection authenticates the client of the connection that carries a request.
func (a *Authenticator) connection(ctx context.Context) (Result, bool, error) {
	carried, ok := ctx.Value(connectionKey{}).(Connection)
	if !ok || carried.Certificate == (Certified{}) {
		return Result{}, false, nil
	}
	if err := a.Revoked(carried); err != nil {
		return Result{}, false, err
	}
	a.remaining.Observe(time.Until(carried.Certificate.Ends).Seconds())
	return Result{User: carried.User, Certificate: carried.Certificate}, true, nil
}

// Revoked returns the reason why the credential that a connection's client presented is not valid any
// more: the certificate has expired or its authority is not accepted, or the bootstrap token is gone. It
// returns nil if the credential is valid or another one.
func (a *Authenticator) Revoked(c Connection) error {
	switch {
	case c.Certificate != (Certified{}):
		if a.cfg.ClientCAs == nil || !a.cfg.ClientCAs.has(c.Certificate.Authority) {
			return errors.New("the authority of the client certificate is not accepted any more")
		}
		if !time.Now().Before(c.Certificate.Ends) {
			return fmt.Errorf("the client certificate expired at %s", c.Certificate.Ends.UTC().Format(time.RFC3339))
		}
	case a.cfg.Bootstrap != nil:
		if id, ok := strings.CutPrefix(c.User.Name, bootstrapapi.BootstrapUserPrefix); ok {
			return a.cfg.Bootstrap.Revoked(id)
		}
	}
	return nil
}

// has reports whether one of the authorities is the one that authority stands for.
func (a *Authorities) has(authority string) bool {
	for _, cert := range a.current().list {
		if authorityOf(cert) == authority {
			return true
		}
	}
	return false
}
