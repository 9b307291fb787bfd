package config

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn/openid"
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
	// FrontProxy configures which clients may name the user of a request in headers.
	FrontProxy FrontProxy
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
	// SigningEndpoint is the Unix socket of a process that signs service account tokens in place of this
	// server's key: a path, or @NAME for an abstract socket. It excludes KeyFiles.
	SigningEndpoint string
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
func (a *Authentication) complete(log *slog.Logger) error {
	errs := []error{a.FrontProxy.complete(log)}
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
	errs = append(errs, a.checkSigner())
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

// abstractSocket matches the names of abstract Unix sockets that Kubernetes accepts.
var abstractSocket = regexp.MustCompile(`^@([a-zA-Z0-9_-]+\.)*[a-zA-Z0-9_-]+$`)

// checkSigner returns an error if the signing endpoint cannot be one.
func (a *Authentication) checkSigner() error {
	switch endpoint := a.SigningEndpoint; {
	case endpoint == "":
		return nil
	case len(a.KeyFiles) > 0:
		return errors.New("a signer of service account tokens has its own keys; do not set further key files")
	case strings.HasPrefix(endpoint, "@") && !abstractSocket.MatchString(endpoint):
		return fmt.Errorf("the signing endpoint %q is not the name of an abstract socket", endpoint)
	case !strings.HasPrefix(endpoint, "@") && !filepath.IsAbs(endpoint):
		return fmt.Errorf("the signing endpoint %q is neither an absolute path nor @NAME of an abstract socket", endpoint)
	default:
		return nil
	}
}
