package apiserver

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/openid"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/review"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

// DefaultIssuer is who issues service account tokens, Kubernetes' default.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Bounds of Authentication.MaxTokenLife, Kubernetes' own.
const (
	minMaxTokenLife = time.Hour
	maxMaxTokenLife = (1 << 32) * time.Second
)

// Authentication says how users are found out; all may be empty.
type Authentication struct {
	// ClientCAFile is a PEM file of authorities whose client certificates count, beside the
	// plane's own. It is read again when it changes.
	ClientCAFile string
	// TokenFile is a CSV file of further bearer tokens, in kube-apiserver's format: token,
	// user, uid and optional quoted groups. It is read again when it changes.
	TokenFile string
	// NoAnonymous refuses requests without a credential, which are else those of
	// system:anonymous.
	NoAnonymous bool
	// AnonymousPaths are the only paths where requests without a credential are let through;
	// all if empty.
	AnonymousPaths []string
	// NoBootstrapTokens refuses the tokens in Secrets of type bootstrap.kubernetes.io/token.
	NoBootstrapTokens bool
	// Issuers are the accepted "iss" of service account tokens, the first being that of new
	// ones; DefaultIssuer if empty.
	Issuers []string
	// Audiences are those of the API, which service account tokens have unless others are
	// asked for; the issuers if empty.
	Audiences []string
	// KeyFiles are PEM files of further public keys by which service account tokens may be
	// signed, such as those of a key that was replaced.
	KeyFiles []string
	// KeysURI is where the discovery document says that the public keys are; at this server if
	// empty.
	KeysURI string
	// MaxTokenLife bounds what token requests may ask for, between an hour and 2^32 seconds; no
	// bound if 0.
	MaxTokenLife time.Duration
	// NoTokenExtension has tokens that pods mount end when they are to be replaced; else they
	// are valid for a year, and the audit log tells of those that were used for too long.
	NoTokenExtension bool
}

// complete fills in defaults and names what is wrong.
func (a *Authentication) complete() error {
	var errs []error
	if len(a.Issuers) == 0 {
		a.Issuers = []string{DefaultIssuer}
	}
	for i, issuer := range a.Issuers {
		switch {
		case issuer == "":
			errs = append(errs, errors.New("an issuer of service account tokens is empty"))
		case slices.Contains(a.Issuers[:i], issuer):
			errs = append(errs, fmt.Errorf("the issuer of service account tokens %q is there twice", issuer))
		case strings.Contains(issuer, ":") && openid.CheckIssuer(issuer) != nil:
			errs = append(errs, fmt.Errorf("the issuer of service account tokens %q contains a ':' but is no URL", issuer))
		}
	}
	if len(a.Audiences) == 0 {
		a.Audiences = slices.Clone(a.Issuers)
	}
	if slices.Contains(a.Audiences, "") {
		errs = append(errs, errors.New("an audience of the API is empty"))
	}
	if a.MaxTokenLife != 0 && (a.MaxTokenLife < minMaxTokenLife || a.MaxTokenLife > maxMaxTokenLife) {
		errs = append(errs, fmt.Errorf("the longest life of service account tokens, %v, must be between 1 hour and 2^32 seconds", a.MaxTokenLife))
	}
	for _, path := range a.AnonymousPaths {
		if !strings.HasPrefix(path, "/") {
			errs = append(errs, fmt.Errorf("the path %q for anonymous requests does not begin with a slash", path))
		}
	}
	if a.NoAnonymous && len(a.AnonymousPaths) > 0 {
		errs = append(errs, errors.New("there are paths for anonymous requests, and these are refused altogether"))
	}
	if a.KeysURI != "" {
		errs = append(errs, openid.CheckURLs(a.Issuers[0], a.KeysURI))
	}
	return errors.Join(errs...)
}

// serviceAccounts makes what issues and verifies service account tokens.
func (p *plane) serviceAccounts() (*authn.ServiceAccounts, error) {
	cfg := p.cfg.Authentication
	var further []authn.PublicKey
	for _, path := range cfg.KeyFiles {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading keys of service account tokens: %w", err)
		}
		keys, err := authn.ParsePublicKeys(data)
		if err != nil {
			return nil, fmt.Errorf("reading keys of service account tokens from %s: %w", path, err)
		}
		further = append(further, keys...)
	}
	return authn.NewServiceAccounts(authn.ServiceAccountsConfig{
		Issuers: cfg.Issuers, Key: p.keys.ServiceAccounts, FurtherKeys: further, Audiences: cfg.Audiences,
		MaxLife: cfg.MaxTokenLife, NoExtension: cfg.NoTokenExtension, Objects: bound{p},
	})
}

// authenticator makes what finds out users, in Kubernetes' order.
func (p *plane) authenticator(accounts *authn.ServiceAccounts) (*authn.Authenticator, error) {
	cfg := p.cfg.Authentication
	authorities, err := authn.NewAuthorities(p.keys.CA, cfg.ClientCAFile, p.cfg.Logger)
	if err != nil {
		return nil, err
	}
	var tokens []authn.Tokens
	for _, path := range []string{p.keys.TokenFile, cfg.TokenFile} {
		if path == "" {
			continue
		}
		file, err := authn.NewTokenFile(path, cfg.Audiences, p.cfg.Logger)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, file)
	}
	tokens = append(tokens, accounts)
	if !cfg.NoBootstrapTokens {
		secrets := p.feeds.Of(scheme.For[*corev1.Secret](p.table))
		tokens = append(tokens, authn.NewBootstrapTokens(cfg.Audiences, func(namespace, name string) (*corev1.Secret, bool) {
			obj, ok := secrets.Cached(namespace, name)
			if !ok {
				return nil, false
			}
			secret, ok := obj.(*corev1.Secret)
			return secret, ok
		}, p.cfg.Logger))
	}
	return authn.New(authn.Config{
		ClientCAs: authorities, Tokens: tokens, Audiences: cfg.Audiences,
		Anonymous:  authn.AnonymousRule{Off: cfg.NoAnonymous, Paths: cfg.AnonymousPaths},
		Registerer: p.cfg.Registerer,
	}), nil
}

// reviews answer the virtual kinds.
func (p *plane) reviews(authenticator *authn.Authenticator) map[schema.GroupVersionKind]rest.Review {
	reviews := map[schema.GroupVersionKind]rest.Review{
		authenticationv1.SchemeGroupVersion.WithKind("TokenReview"):       review.Token(authenticator),
		authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"): review.Self,
	}
	for kind, answer := range p.access.answers() {
		reviews[kind] = rest.Review(answer)
	}
	return reviews
}

// serveOpenID serves the documents by which others verify service account tokens. An issuer that
// is no https URL is fine for tokens, but not for them.
func (p *plane) serveOpenID(mux *http.ServeMux, get func(http.Handler) http.Handler, accounts *authn.ServiceAccounts) {
	cfg := p.cfg.Authentication
	documents, err := openid.New(cfg.Issuers[0], cfg.KeysURI, p.address, accounts.Keys())
	if err != nil {
		p.cfg.Logger.Info("No discovery document of service account tokens is served", "err", err)
		return
	}
	mux.Handle(openid.ConfigurationPath, get(http.HandlerFunc(documents.ServeConfiguration)))
	mux.Handle(openid.KeysPath, get(http.HandlerFunc(documents.ServeKeys)))
}

// external is the address by which others reach a server that listens at an address.
func (c Config) external(listening net.Addr) string {
	if address, err := c.advertise(listening); err == nil && address.IsValid() {
		return address.String()
	}
	return listening.String()
}
