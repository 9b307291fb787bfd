package authn

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	asn1util "k8s.io/apimachinery/pkg/apis/asn1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// Authorities are the authorities of accepted certificates of clients, or of front proxies: the
// plane's own, and those of a PEM file that is read again when it changes.
type Authorities struct {
	own  trusted
	file *reloading[trusted] // own and the file's; nil without a file
}

// trusted is a list of certificates, and the same as a pool.
type trusted struct {
	list []*x509.Certificate
	pool *x509.CertPool
}

func (t *trusted) add(cert *x509.Certificate) {
	t.list = append(t.list, cert)
	t.pool.AddCert(cert)
}

// NewAuthorities returns the set of own and, unless path is empty, the certificates in the file at
// path.
func NewAuthorities(own *x509.Certificate, path string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{own: trusted{pool: x509.NewCertPool()}}
	if own != nil {
		a.own.add(own)
	}
	if path == "" {
		return a, nil
	}
	var err error
	a.file, err = newReloading(path, "the client certificate authorities", log, a.parse)
	return a, err
}

func (a *Authorities) parse(data []byte) (trusted, error) {
	all := trusted{list: slices.Clone(a.own.list), pool: a.own.pool.Clone()}
	found := 0
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return trusted{}, fmt.Errorf("certificate %d: %w", found+1, err)
		}
		all.add(cert)
		found++
	}
	if found == 0 {
		return trusted{}, errors.New("it holds no PEM certificate")
	}
	return all, nil
}

// Pool returns the authorities as they are now.
func (a *Authorities) Pool() *x509.CertPool { return a.current().pool }

// Certificates returns the certificates of the authorities, as they are now: first the plane's own.
func (a *Authorities) Certificates() []*x509.Certificate { return slices.Clone(a.current().list) }

func (a *Authorities) current() trusted {
	if a.file == nil {
		return a.own
	}
	return a.file.get()
}

// certificate authenticates the client certificate. The user's name is its common name, the groups
// are its organizations.
func (a *Authenticator) certificate(r *http.Request) (Result, bool, error) {
	if a.cfg.ClientCAs == nil || r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return Result{}, false, nil
	}
	leaf, others := r.TLS.PeerCertificates[0], r.TLS.PeerCertificates[1:]
	roots := a.cfg.ClientCAs.Pool()
	key := keyOf(roots, r.TLS.PeerCertificates)
	if known, ok := a.verified.find(key, time.Now()); ok {
		a.remaining.Observe(time.Until(leaf.NotAfter).Seconds())
		return known.result(), true, nil
	}
	chains, err := chainsOf(roots, leaf, others)
	if err != nil {
		return Result{}, false, fmt.Errorf("verifying certificate SN=%d, SKID=%s, AKID=%s failed: %w",
			leaf.SerialNumber, colons(leaf.SubjectKeyId), colons(leaf.AuthorityKeyId), err)
	}
	var errs []error
	for _, chain := range chains {
		user, ok, err := userOf(chain[0])
		if err != nil {
			errs = append(errs, err)
		}
		if ok {
			a.remaining.Observe(time.Until(leaf.NotAfter).Seconds())
			return a.verified.keep(key, user, chain).result(), true, nil
		}
	}
	return Result{}, false, utilerrors.NewAggregate(errs)
}

// chainsOf returns the chains from a client certificate to one of roots. others are what the client sent
// with it.
func chainsOf(roots *x509.CertPool, leaf *x509.Certificate, others []*x509.Certificate) ([][]*x509.Certificate, error) {
	intermediates := x509.NewCertPool()
	for _, cert := range others {
		intermediates.AddCert(cert)
	}
	return leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// userOf returns the user that a verified certificate names, and false if it has no common name.
func userOf(cert *x509.Certificate) (User, bool, error) {
	if cert.Subject.CommonName == "" {
		return User{}, false, nil
	}
	uid, err := uidOf(cert)
	if err != nil {
		return User{}, false, err
	}
	digest := sha256.Sum256(cert.Raw)
	return User{
		Name: cert.Subject.CommonName, UID: uid, Groups: slices.Clone(cert.Subject.Organization),
		Extra: map[string][]string{ExtraCredentialID: {"X509SHA256=" + hex.EncodeToString(digest[:])}},
	}, true, nil
}

// uidOf reads the user's UID from the subject attribute with Kubernetes' object identifier.
func uidOf(cert *x509.Certificate) (string, error) {
	var uids []string
	for _, name := range cert.Subject.Names {
		if !name.Type.Equal(asn1util.X509UID()) {
			continue
		}
		uid, ok := name.Value.(string)
		if !ok {
			return "", errors.New("unable to parse UID into a string")
		}
		uids = append(uids, uid)
	}
	switch {
	case len(uids) == 0:
		return "", nil
	case len(uids) > 1:
		return "", fmt.Errorf("expected 1 UID, but found multiple: %v", uids)
	case uids[0] == "":
		return "", errors.New("UID cannot be an empty string")
	}
	return uids[0], nil
}

func colons(data []byte) string {
	parts := make([]string, len(data))
	for i, b := range data {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}
