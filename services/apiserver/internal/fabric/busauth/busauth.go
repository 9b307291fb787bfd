// Package busauth decides who may do what on the bus, as the API's own authentication and
// authorization do: a client of NATS is the user that his bearer token or his certificate
// would be over HTTP, may subscribe to the watch messages that he may list and watch, and is
// authorized for each ask.
package busauth

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/logsample"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
)

// DefaultLife is how long a connection lasts at most, and with it a right that was withdrawn.
// A fifth of it is left to chance, so that clients of a restarted server do not all come
// again in one moment.
const DefaultLife = 10 * time.Minute

// Roles tells what is granted to a user by name, so that it need not be tried out: the RBAC
// authorizer. What RoleBindings grant is taken from it alone.
type Roles interface {
	// Namespaces gives those in which RoleBindings grant a user something.
	Namespaces(user authn.User) ([]string, error)
	// Granted visits the rules that RoleBindings of a namespace grant to a user, or
	// ClusterRoleBindings if it is empty, until see returns false.
	Granted(user authn.User, namespace string, see func([]rbacv1.PolicyRule) bool) error
	// Versions gives those of what is granted.
	Versions(have rbac.Versions) rbac.Versions
}

// Config is what is decided by; all but Accounts, Life, Budget, Audit, Logger and Registerer are
// required.
type Config struct {
	// Authenticator finds out who shows a token or a certificate.
	Authenticator *authn.Authenticator
	// Authorizer decides.
	Authorizer authz.Authorizer
	// Roles tells where to look.
	Roles Roles
	// Table is the set of kinds.
	Table *scheme.Table
	// Accounts reads service accounts: whose account is deleted is refused at once. If it is nil
	// his connection ends first.
	Accounts func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	// Life is how long a connection lasts at most; DefaultLife if 0.
	Life time.Duration
	// Budget is how many rules are looked at of what one namespace grants to a user; a rule of many
	// words counts as several. DefaultBudget if 0; a negative one is no bound.
	Budget int
	// Audit writes down what is asked and who is let in to watch; nil for nothing.
	Audit *audit.Auditor
	// Logger takes what no caller is told of; slog.Default if nil.
	Logger *slog.Logger
	// Registerer gets the metrics; none if nil.
	Registerer prometheus.Registerer
}

// Decider decides. It may be used from any goroutine.
type Decider struct {
	cfg        Config
	kinds      kinds
	answers    answers
	complaints logsample.Gate
	narrowed   *prometheus.CounterVec
}

// New makes a decider.
func New(cfg Config) *Decider {
	if cfg.Life == 0 {
		cfg.Life = DefaultLife
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Budget == 0 {
		cfg.Budget = DefaultBudget
	}
	d := &Decider{cfg: cfg, kinds: kindsOf(cfg.Table), narrowed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "garboard_nats_rights_narrowed_total",
		Help: "Clients let in at NATS with fewer subjects than they may watch, by the bound: subjects, names, rules or time. They follow the rest over HTTP.",
	}, []string{"bound"})}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(d.narrowed)
	}
	return d
}

// Decide finds out who a client of NATS is, and what he may do there until when. Nobody is let
// in without a credential.
func (d *Decider) Decide(ctx context.Context, shown callout.Credentials) (callout.Grant, error) {
	user, err := d.authenticate(ctx, shown)
	if err != nil {
		return callout.Grant{}, err
	}
	who, err := Identity(user)
	if err != nil {
		return callout.Grant{}, err
	}
	who = bus.IdentityAt(who, shown.Host)
	subjects, err := d.subjects(ctx, user)
	if err != nil {
		return callout.Grant{}, fmt.Errorf("finding out what %q may watch: %w", user.Name, err)
	}
	rights := bus.RightsOf(bus.Asker{Inbox: shown.Inbox, Identity: who})
	for _, one := range subjects {
		rights.Subscribe = append(rights.Subscribe, one.subject)
	}
	if name, isNode := node.Identity(user); isNode && name != "" {
		own := bus.RightsOfNode(name)
		rights.Publish, rights.Subscribe = append(rights.Publish, own.Publish...), append(rights.Subscribe, own.Subscribe...)
	}
	expires := d.expires(shown)
	if err := d.watches(shown, user, subjects, expires); err != nil {
		return callout.Grant{}, err
	}
	return callout.Grant{Identity: who, User: user.Name, Rights: rights, Expires: expires}, nil
}

// authenticate asks the authenticator of the API, as if the client had sent it a request.
func (d *Decider) authenticate(ctx context.Context, shown callout.Credentials) (authn.User, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return authn.User{}, fmt.Errorf("authenticating a client of NATS: %w", err)
	}
	if shown.Token != "" {
		request.Header.Set("Authorization", "Bearer "+shown.Token)
	}
	if len(shown.Certificates) > 0 {
		request.TLS = &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: shown.Certificates}
	}
	result, ok, err := d.cfg.Authenticator.Authenticate(request)
	if err != nil {
		return authn.User{}, fmt.Errorf("its credential is not valid: %w", err)
	}
	if !ok || result.User.Unauthenticated() {
		return authn.User{}, errors.New("it shows neither a bearer token nor a certificate")
	}
	return result.User, nil
}

// expires is when the client has to come again: with his credential, if that ends earlier.
func (d *Decider) expires(shown callout.Credentials) time.Time {
	end := time.Now().Add(d.cfg.Life - rand.N(d.cfg.Life/5+1))
	if ends := tokenEnd(shown.Token); !ends.IsZero() && ends.Before(end) {
		end = ends
	}
	if len(shown.Certificates) > 0 && shown.Certificates[0].NotAfter.Before(end) {
		end = shown.Certificates[0].NotAfter
	}
	return end
}

// tokenEnd is when a token that has been verified ends; zero if it does not say.
func tokenEnd(token string) time.Time {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}
	}
	var claims struct {
		Expires float64 `json:"exp"`
	}
	if json.Unmarshal(data, &claims) != nil || claims.Expires == 0 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Expires), 0)
}
