package authn

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/garboard/garboard/libs/metric"
)

// ErrInvalidToken says that a bearer token is nobody's.
var ErrInvalidToken = errors.New("invalid bearer token")

// spaceWarning is for a client whose token is not looked at.
const spaceWarning = "the provided Authorization header contains extra space before the bearer token, and is ignored"

// Result is who was found out, and what else the credential tells.
type Result struct {
	User User
	// Audiences are those, of the ones that were asked for, that a token is meant for.
	Audiences []string
	// Annotations are notes for the audit log.
	Annotations map[string]string
	// Warnings are for the client to see.
	Warnings []string
}

// Tokens finds the user of a bearer token. audiences are those that the asker answers to; the
// token has to be meant for one of them. It is false when the token is none of its kind; an error
// says that it is, and is not valid.
type Tokens interface {
	Token(ctx context.Context, token string, audiences []string) (Result, bool, error)
}

// AnonymousRule says what becomes of requests without a credential.
type AnonymousRule struct {
	// Off has them refused.
	Off bool
	// Paths are the only ones where they are let through, if there are any.
	Paths []string
}

// Config is what an authenticator knows; all may be empty.
type Config struct {
	// ClientCAs are the authorities whose client certificates count; nil for none.
	ClientCAs *Authorities
	// Tokens are asked in order.
	Tokens []Tokens
	// Audiences are those of the API itself.
	Audiences []string
	// Anonymous is the rule for requests without a credential.
	Anonymous AnonymousRule
	// Registerer gets the metrics; none if nil.
	Registerer prometheus.Registerer
}

// Authenticator finds out who makes a request. In Kubernetes' order: by the client certificate,
// by the bearer token of the Authorization header, by that in a WebSocket's subprotocols. The
// first that is valid counts, whatever is wrong with the others; with a credential that is not
// valid and none that is, a request is refused and not taken for anonymous.
type Authenticator struct {
	cfg      Config
	verified verified
	// remaining is for how much longer the certificates that were shown are good.
	remaining prometheus.Observer
}

// New makes an authenticator.
func New(cfg Config) *Authenticator {
	return &Authenticator{cfg: cfg, remaining: metric.Register(cfg.Registerer, prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "apiserver_client_certificate_expiration_seconds", Help: "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
		// kube-apiserver's: from half an hour to a year.
		Buckets: []float64{
			0, 1800, 3600, 2 * 3600, 6 * 3600, 12 * 3600, day, 2 * day, 4 * day, 7 * day, 30 * day, 90 * day, 180 * day, 360 * day,
		},
	}))}
}

const day = 24 * 3600

// Audiences are those of the API itself.
func (a *Authenticator) Audiences() []string { return slices.Clone(a.cfg.Audiences) }

// Authenticate gives the user of a request: anonymous if it has no credential. It is false when
// the request is to be refused; the error says why and is not for the client to see.
func (a *Authenticator) Authenticate(r *http.Request) (Result, bool, error) {
	var errs []error
	for _, method := range []func(*http.Request) (Result, bool, error){a.certificate, a.header, a.webSocket} {
		result, ok, err := method(r)
		switch {
		case err != nil:
			errs = append(errs, err)
		case ok:
			result.User = result.User.authenticated()
			return result, true, nil
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return Result{}, false, err
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

// Token finds the user of a bearer token that is meant for one of audiences. It is false, with
// an error that the asker may see, when the token is nobody's or not valid.
func (a *Authenticator) Token(ctx context.Context, token string, audiences []string) (Result, bool, error) {
	result, ok, err := a.token(ctx, token, audiences)
	if ok {
		result.User = result.User.authenticated()
	}
	return result, ok, err
}

func (a *Authenticator) token(ctx context.Context, token string, audiences []string) (Result, bool, error) {
	var errs []error
	for _, tokens := range a.cfg.Tokens {
		result, ok, err := tokens.Token(ctx, token, audiences)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if ok {
			return result, true, nil
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		return Result{}, false, err
	}
	return Result{}, false, ErrInvalidToken
}

func (a *Authenticator) header(r *http.Request) (Result, bool, error) {
	token, _ := bearer(r.Header)
	if token == "" {
		return Result{}, false, nil
	}
	return a.token(r.Context(), token, a.cfg.Audiences)
}

// bearer gives the token of the Authorization header, empty if it has none. spaced says that
// there is one which does not count, since more than one space is before it.
func bearer(header http.Header) (token string, spaced bool) {
	parts := strings.SplitN(strings.TrimSpace(header.Get("Authorization")), " ", 3)
	if len(parts) < 2 || !strings.EqualFold(parts[0], "bearer") {
		return "", false
	}
	return parts[1], parts[1] == "" && len(parts) == 3
}

// authenticated adds the group of all who were found out.
func (u User) authenticated() User {
	if u.Name == Anonymous || slices.Contains(u.Groups, GroupAuthenticated) || slices.Contains(u.Groups, GroupUnauthenticated) {
		return u
	}
	u.Groups = append(slices.Clone(u.Groups), GroupAuthenticated)
	return u
}

// Strip removes from a request's header what only the authenticator is to see, and what a proxy
// in front of other API servers would say of the user.
func Strip(header http.Header) {
	header.Del("Authorization")
	for name := range header {
		if name == "X-Remote-User" || name == "X-Remote-Uid" || name == "X-Remote-Group" || strings.HasPrefix(name, "X-Remote-Extra-") {
			header.Del(name)
		}
	}
}

// audienceless limits tokens that name no audience to those of the API.
func audienceless(api, asked []string) []string {
	var both []string
	for _, audience := range api {
		if slices.Contains(asked, audience) {
			both = append(both, audience)
		}
	}
	return both
}
