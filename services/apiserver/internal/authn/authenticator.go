package authn

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Authenticator finds out who makes a request.
type Authenticator struct {
	// ClientCAs are the authorities whose client certificates count.
	ClientCAs *x509.CertPool
	// TokenFiles are asked in order.
	TokenFiles []*TokenFile
	// ServiceAccounts verifies the tokens of service accounts.
	ServiceAccounts *ServiceAccounts
}

// Authenticate gives the user of a request: Anonymous if it has no credential. An error means
// that it has one which is not valid.
func (a *Authenticator) Authenticate(r *http.Request) (User, error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		user, err := a.certificate(r.TLS.PeerCertificates)
		if err == nil {
			return user.authenticated(), nil
		}
		if token, _ := bearer(r); token == "" {
			return User{}, err
		}
	}
	token, err := bearer(r)
	if err != nil {
		return User{}, err
	}
	if token == "" {
		return User{Name: Anonymous, Groups: []string{GroupUnauthenticated}}, nil
	}
	user, err := a.Token(r, token)
	if err != nil {
		return User{}, err
	}
	return user.authenticated(), nil
}

// Token finds the user of a bearer token.
func (a *Authenticator) Token(r *http.Request, token string) (User, error) {
	var errs []error
	for _, file := range a.TokenFiles {
		user, ok, err := file.Lookup(token)
		if ok {
			return user, nil
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	user, ok, err := a.ServiceAccounts.Verify(r.Context(), token)
	if err != nil {
		return User{}, errors.Join(append(errs, err)...)
	}
	if !ok {
		return User{}, errors.Join(append(errs, ErrInvalidToken)...)
	}
	return user, nil
}

func (a *Authenticator) certificate(chain []*x509.Certificate) (User, error) {
	intermediates := x509.NewCertPool()
	for _, cert := range chain[1:] {
		intermediates.AddCert(cert)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: a.ClientCAs, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return User{}, fmt.Errorf("verifying the client certificate of %q: %w", chain[0].Subject.CommonName, err)
	}
	name := chain[0].Subject.CommonName
	if name == "" {
		return User{}, errors.New("the client certificate has no common name")
	}
	return User{Name: name, Groups: slices.Clone(chain[0].Subject.Organization)}, nil
}

// bearer gives the request's bearer token, empty if it has none.
func bearer(r *http.Request) (string, error) {
	header := strings.TrimSpace(r.Header.Get("Authorization"))
	scheme, token, _ := strings.Cut(header, " ")
	if header == "" || !strings.EqualFold(scheme, "bearer") {
		return "", nil
	}
	token = strings.TrimSpace(token)
	if token == "" {
		return "", ErrInvalidToken
	}
	return token, nil
}

// authenticated adds the group of all who were found out.
func (u User) authenticated() User {
	if !slices.Contains(u.Groups, GroupAuthenticated) {
		u.Groups = append(slices.Clone(u.Groups), GroupAuthenticated)
	}
	return u
}
