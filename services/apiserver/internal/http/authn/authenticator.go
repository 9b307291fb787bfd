package authn

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/garboard/garboard/libs/metric"
)

// errInvalidToken reports a bearer token that belongs to no user.
var errInvalidToken = errors.New("invalid bearer token")

// spaceWarning is the warning for a client whose bearer token is ignored.
const spaceWarning = "the provided Authorization header contains extra space before the bearer token, and is ignored"

// Result is the authenticated user, with what else the credential says.
type Result struct {
	User User
	// Audiences are the requested audiences that the token is meant for.
	Audiences []string
	// Annotations are for the audit log, even if the credential is refused.
	Annotations map[string]string
	// Warnings are shown to the client.
	Warnings []string
	// Certificate tells what the client certificate depends on; zero if the user has none.
	Certificate Certified
}

// Tokens authenticates bearer tokens of one kind. The token must be meant for one of audiences, the
// ones that the caller accepts. Token returns false without an error if the token is of another
// kind, and an error if it is of this kind but invalid.
type Tokens interface {
	Token(ctx context.Context, token string, audiences []string) (Result, bool, error)
}

// AnonymousRule is how requests without a credential are treated.
type AnonymousRule struct {
	// Off refuses them.
	Off bool
	// Paths, if not empty, are the only paths where they are allowed.
	Paths []string
}

// Config configures an Authenticator. Every field may be empty.
type Config struct {
	// ClientCAs are the authorities of accepted client certificates; nil for none.
	ClientCAs *Authorities
	// FrontProxy is which clients may name the user in headers; nil for none.
	FrontProxy *FrontProxy
	// Tokens are tried in order.
	Tokens []Tokens
	// Bootstrap are the bootstrap tokens among Tokens, for Revoked; nil for none.
	Bootstrap *BootstrapTokens
	// Audiences are the API's own.
	Audiences []string
	// Anonymous is the rule for requests without a credential.
	Anonymous AnonymousRule
	// Registerer registers the metrics, unless it is nil.
	Registerer prometheus.Registerer
}

// Authenticator authenticates requests. It tries, in Kubernetes' order, the headers of a front proxy, the client
// certificate, the bearer token of the Authorization header, and the bearer token in a WebSocket's subprotocols.
// The first valid credential wins, whatever is wrong with the others. If credentials are present and
// none is valid, the request is refused rather than treated as anonymous. A request without any is
// that of the client of the connection that carries it (WithConnection), if there is one.
type Authenticator struct {
	cfg      Config
	verified verified
	// proxies are the verified certificates of front proxies.
	proxies verified
	// remaining observes the remaining lifetime of client certificates, in seconds.
	remaining prometheus.Observer
}

// New returns an authenticator.
func New(cfg Config) *Authenticator {
	return &Authenticator{cfg: cfg, remaining: metric.Register(cfg.Registerer, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "apiserver_client_certificate_expiration_seconds", Help: "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
		// These are kube-apiserver's buckets, from half an hour to a year.
		Buckets: []float64{
			0, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, day, 2 * day, 4 * day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day,
		},
	}))}
}

const day = 24 * 3600

// Audiences returns the API's own audiences.
func (a *Authenticator) Audiences() []string { return slices.Clone(a.cfg.Audiences) }

// Authenticate returns the user of a request, which is anonymous if the request has no credential.
// It returns false when the request must be refused. The error says why and must not be shown to
// the client.
func (a *Authenticator) Authenticate(r *http.Request) (Result, bool, error) {
	var errs []error
	var refused Result
	for _, method := range []func(*http.Request) (Result, bool, error){a.proxied, a.certificate, a.header, a.webSocket} {
		result, ok, err := method(r)
		refused.note(result)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok:
			result.User, result.Annotations = result.User.authenticated(), refused.Annotations
			return result, true, nil
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return refused, false, err
	}
	if result, ok, err := a.connection(r.Context()); ok || err != nil {
		return result, ok, err
	}
	if a.cfg.Anonymous.Off || len(a.cfg.Anonymous.Paths) > 0 && !slices.Contains(a.cfg.Anonymous.Paths, r.URL.Path) {
		return Result{}, false, nil
	}
	result := Result{User: User{Name: Anonymous, Groups: []string{GroupUnauthenticated}}}
	if _, spaced := bearer(r.Header); spaced {
		result.Warnings = []string{spaceWarning}
	}
	return result, true, nil
}

// note adds the annotations of another result.
func (r *Result) note(other Result) {
	if len(other.Annotations) == 0 {
		return
	}
	annotations := maps.Clone(other.Annotations)
	maps.Copy(annotations, r.Annotations)
	r.Annotations = annotations
}

// Token returns the user of a bearer token that is meant for one of audiences. If the token is
// unknown or invalid, it returns false and an error that the caller may see.
func (a *Authenticator) Token(ctx context.Context, token string, audiences []string) (Result, bool, error) {
	result, ok, err := a.token(ctx, token, audiences)
	if ok {
		result.User = result.User.authenticated()
	}
	return result, ok, err
}

func (a *Authenticator) token(ctx context.Context, token string, audiences []string) (Result, bool, error) {
	var errs []error
	var refused Result
	for _, tokens := range a.cfg.Tokens {
		result, ok, err := tokens.Token(ctx, token, audiences)
		refused.note(result)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if ok {
			result.Annotations = refused.Annotations
			return result, true, nil
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return refused, false, err
	}
	return refused, false, errInvalidToken
}

func (a *Authenticator) header(r *http.Request) (Result, bool, error) {
	token, _ := bearer(r.Header)
	if token == "" {
		return Result{}, false, nil
	}
	return a.token(r.Context(), token, a.cfg.Audiences)
}

// bearer returns the token of the Authorization header, or "" if it has none. spaced reports that
// the header has a token which is ignored because more than one space precedes it.
func bearer(header http.Header) (token string, spaced bool) {
	parts := strings.SplitN(strings.TrimSpace(header.Get("Authorization")), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return "", false
	}
	return parts[1], parts[1] == "" && len(parts) == 3
}

// authenticated adds the group of all authenticated users.
func (u User) authenticated() User {
	if u.Name == Anonymous || slices.Contains(u.Groups, GroupAuthenticated) || slices.Contains(u.Groups, GroupUnauthenticated) {
		return u
	}
	u.Groups = append(slices.Clone(u.Groups), GroupAuthenticated)
	return u
}

// Strip removes from a request's header the bearer token, which only the authenticator may see, and
// the headers in which front proxies name the user: Kubernetes' usual ones, and those that are
// configured.
func (a *Authenticator) Strip(header http.Header) {
	header.Del("Authorization")
	stripUsual(header)
	if a.cfg.FrontProxy != nil {
		a.cfg.FrontProxy.Headers.strip(header)
	}
}

// audienceless returns the audiences of api that are also in asked. Tokens that name no audience
// are limited to those.
func audienceless(api, asked []string) []string {
	var both []string
	for _, audience := range api {
		if slices.Contains(asked, audience) {
			both = append(both, audience)
		}
	}
	return both
}
