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

// DefaultIssuer is the issuer of service account tokens, Kubernetes' default.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Bounds of Authentication.MaxTokenLife, Kubernetes' own.
const (
	minMaxTokenLife = time.Hour
	maxMaxTokenLife = (1 << 32) * time.Second
)

// Authentication configures how users are authenticated. Every field may be empty.
type Authentication struct {
	// ClientCAFile is a PEM file of authorities whose client certificates are accepted in addition
	// to the plane's own. It is read again when it changes.
	ClientCAFile string
	// TokenFile is a CSV file of further bearer tokens, in kube-apiserver's format: token, user,
	// uid and optional quoted groups. It is read again when it changes.
	TokenFile string
	// NoAnonymous refuses requests without a credential, which otherwise belong to
	// system:anonymous.
	NoAnonymous bool
	// AnonymousPaths are the only paths where requests without a credential are allowed; all paths
	// if empty.
	AnonymousPaths []string
	// NoBootstrapTokens refuses the tokens in Secrets of type bootstrap.kubernetes.io/token.
	NoBootstrapTokens bool
	// Issuers are the accepted "iss" claims of service account tokens. New tokens get the first.
	// DefaultIssuer if empty.
	Issuers []string
	// Audiences are the API's own, which service account tokens get unless a request names others;
	// the issuers if empty.
	Audiences []string
	// KeyFiles are PEM files of further public keys that may have signed service account tokens,
	// such as a key that was replaced.
	KeyFiles []string
	// KeysURI is the URL of the public keys in the discovery document; this server's if empty.
	KeysURI string
	// MaxTokenLife bounds what token requests may ask for, between an hour and 2^32 seconds; no
	// bound if 0.
	MaxTokenLife time.Duration
	// NoTokenExtension makes tokens that pods mount expire when they should be replaced. Otherwise
	// they are valid for a year, and the audit log names those that were used for too long.
	NoTokenExtension bool
}

// complete sets defaults and returns everything that is wrong.
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
			errs = append(errs, fmt.Errorf("the issuer of service account tokens %q is set twice", issuer))
		case strings.Contains(issuer, ":") && openid.CheckIssuer(issuer) != nil:
			errs = append(errs, fmt.Errorf("the issuer of service account tokens %q contains a ':' but is not a URL", issuer))
		}
	}
	if len(a.Audiences) == 0 {
		a.Audiences = slices.Clone(a.Issuers)
	}
	if slices.Contains(a.Audiences, "") {
		errs = append(errs, errors.New("an audience of the API is empty"))
	}
	if a.MaxTokenLife != 0 && (a.MaxTokenLife < minMaxTokenLife || a.MaxTokenLife > maxMaxTokenLife) {
		errs = append(errs, fmt.Errorf("the maximum lifetime of service account tokens, %v, must be between 1 hour and 2^32 seconds",
			a.MaxTokenLife))
	}
	for _, path := range a.AnonymousPaths {
		if !strings.HasPrefix(path, "/") {
			errs = append(errs, fmt.Errorf("the path %q for anonymous requests does not begin with a slash", path))
		}
	}
	if a.NoAnonymous && len(a.AnonymousPaths) > 0 {
		errs = append(errs, errors.New("paths for anonymous requests are set, but anonymous requests are refused altogether"))
	}
	if a.KeysURI != "" {
		errs = append(errs, openid.CheckURLs(a.Issuers[0], a.KeysURI))
	}
	return errors.Join(errs...)
}

// serviceAccounts returns the issuer and verifier of service account tokens.
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

// authenticator returns the authenticator of requests, which tries credentials in Kubernetes'
// order.
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

// reviews returns the answers of the virtual kinds.
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

// serveOpenID serves the documents with which other programs verify service account tokens. An
// issuer that is not an https URL is valid for tokens, but the documents cannot be served for it.
func (p *plane) serveOpenID(mux *http.ServeMux, get func(http.Handler) http.Handler, accounts *authn.ServiceAccounts) {
	cfg := p.cfg.Authentication
	documents, err := openid.New(cfg.Issuers[0], cfg.KeysURI, p.address, accounts.Keys())
	if err != nil {
		p.cfg.Logger.Info("the discovery document of service account tokens is not served", "err", err)
		return
	}
	mux.Handle(openid.ConfigurationPath, get(http.HandlerFunc(documents.ServeConfiguration)))
	mux.Handle(openid.KeysPath, get(http.HandlerFunc(documents.ServeKeys)))
}

// external returns the address by which clients reach a server that listens at the given address.
func (c Config) external(listening net.Addr) string {
	if address, err := c.advertise(listening); err == nil && address.IsValid() {
		return address.String()
	}
	return listening.String()
}
