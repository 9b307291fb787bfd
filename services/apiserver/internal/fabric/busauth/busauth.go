// Package busauth decides what each client may do on the bus, with the API's own authentication and
// authorization. A NATS client is the user that its bearer token or certificate would be over HTTP.
// It may subscribe to the watch messages that it may list and watch, and is authorized for each
// ask.
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
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/logsample"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
)

// DefaultLife is the maximum duration of a connection, and therefore of a right that was withdrawn.
// A fifth of it is jitter, so that the clients of a restarted server do not all reconnect at the
// same moment.
const DefaultLife = 10 * time.Minute

// DefaultNodeLife is that of a node agent's connection. Each reconnect may end sessions of pods that have data on the
// way; and a node's own rights follow from its name, so that they are never withdrawn while its certificate is valid.
const DefaultNodeLife = 24 * time.Hour

// Roles reports which rights a user has by name, so that they need not be probed: the RBAC
// authorizer. It is the only source for what RoleBindings grant.
type Roles interface {
	// Namespaces returns the namespaces in which RoleBindings grant a user something.
	Namespaces(user authn.User) ([]string, error)
	// Granted visits the rules that RoleBindings of a namespace, or ClusterRoleBindings if it is
	// empty, grant to a user, until see returns false.
	Granted(user authn.User, namespace string, see func([]rbacv1.PolicyRule) bool) error
	// Versions returns the versions of what is granted.
	Versions(have rbac.Versions) rbac.Versions
}

// Config configures a Decider. All fields are required except Accounts, Life, NodeLife, Budget, Audit,
// Logger and Registerer.
type Config struct {
	// Authenticator authenticates tokens and certificates.
	Authenticator *authn.Authenticator
	// Authorizer authorizes requests.
	Authorizer authz.Authorizer
	// Roles reports where to look for rights.
	Roles Roles
	// Table is the set of kinds.
	Table *scheme.Table
	// Accounts reads service accounts: clients whose account is deleted are refused at once. If it
	// is nil, they keep their rights until the connection ends.
	Accounts func(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error)
	// Life is the maximum duration of a connection; DefaultLife if 0.
	Life time.Duration
	// NodeLife is that of node agents; DefaultNodeLife if 0.
	NodeLife time.Duration
	// Budget is how many of the rules that one namespace grants to a user are looked at; a rule of
	// many words counts as several. 0 means DefaultBudget; a negative value means no bound.
	Budget int
	// Audit records asks and the clients that are let in to watch; nil for none.
	Audit *audit.Auditor
	// Logger receives what is not returned to any caller; slog.Default if nil.
	Logger *slog.Logger
	// Registerer receives the metrics; if nil there are none.
	Registerer prometheus.Registerer
}

// Decider decides what clients may do. It is safe for concurrent use.
type Decider struct {
	cfg        Config
	kinds      *scheme.Derived[*kinds]
	answers    answers
	complaints logsample.Gate
	narrowed   *prometheus.CounterVec
}

// New returns a Decider.
func New(cfg Config) *Decider {
	if cfg.Life == 0 {
		cfg.Life = DefaultLife
	}
	if cfg.NodeLife == 0 {
		cfg.NodeLife = DefaultNodeLife
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Budget == 0 {
		cfg.Budget = DefaultBudget
	}
	d := &Decider{cfg: cfg, kinds: scheme.Derive(cfg.Table, kindsOf), narrowed: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "garboard_nats_rights_narrowed_total",
		Help: "Clients admitted to NATS with fewer subjects than they may watch, by the exceeded bound: subjects, names, rules or time. They follow the rest over HTTP.",
	}, []string{"bound"})}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(d.narrowed)
	}
	return d
}

// Decide authenticates a NATS client and returns what it may do there, and until when. A client
// without a credential is never let in.
func (d *Decider) Decide(ctx context.Context, shown callout.Credentials) (callout.Grant, error) {
	client, err := d.authenticate(ctx, shown)
	if err != nil {
		return callout.Grant{}, err
	}
	user := client.User
	id, err := Identity(client)
	if err != nil {
		return callout.Grant{}, err
	}
	id = subject.IdentityAt(id, shown.Host)
	if Bootstraps(user) {
		rights := subject.RightsToCall(subject.Client{Inbox: shown.Inbox, Identity: id})
		return callout.Grant{Identity: id, User: user.Name, Rights: rights, Expires: d.expires(shown, client)}, nil
	}
	subjects, err := d.subjects(ctx, user)
	if err != nil {
		return callout.Grant{}, fmt.Errorf("finding out what %q may watch: %w", user.Name, err)
	}
	rights := subject.RightsOf(subject.Client{Inbox: shown.Inbox, Identity: id})
	for _, one := range subjects {
		if !one.covered {
			rights.Subscribe = append(rights.Subscribe, one.subject)
		}
	}
	if name, isNode := node.Identity(user); isNode && name != "" {
		own := subject.RightsOfNode(name)
		rights.Publish, rights.Subscribe = append(rights.Publish, own.Publish...), append(rights.Subscribe, own.Subscribe...)
	}
	expires := d.expires(shown, client)
	if err := d.watches(shown, user, subjects, expires); err != nil {
		return callout.Grant{}, err
	}
	return callout.Grant{Identity: id, User: user.Name, Rights: rights, Expires: expires}, nil
}

// authenticate uses the API's authenticator, as if the client had sent an HTTP request.
func (d *Decider) authenticate(ctx context.Context, shown callout.Credentials) (authn.Connection, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	if err != nil {
		return authn.Connection{}, fmt.Errorf("authenticating a client of NATS: %w", err)
	}
	switch {
	case shown.Token != "":
		// Where NATS wants a certificate of every client, the token says who of its host connects.
		request.Header.Set("Authorization", "Bearer "+shown.Token)
	case len(shown.Certificates) > 0:
		request.TLS = &tls.ConnectionState{HandshakeComplete: true, PeerCertificates: shown.Certificates}
	}
	result, ok, err := d.cfg.Authenticator.Authenticate(request)
	if err != nil {
		return authn.Connection{}, fmt.Errorf("the client's credential is not valid: %w", err)
	}
	if !ok || result.User.Unauthenticated() {
		return authn.Connection{}, errors.New("the client presented neither a bearer token nor a certificate")
	}
	return authn.Connection{User: result.User, Certificate: result.Certificate}, nil
}

// Bootstraps reports whether a user has only a bootstrap token. Such a client may send requests to the
// API and receive the answers, and nothing else.
func Bootstraps(user authn.User) bool {
	return slices.Contains(user.Groups, bootstrapapi.BootstrapDefaultGroup)
}

// expires returns when the client must reconnect: at the end of its life, or of its credential or a
// certificate in its chain if that ends earlier.
func (d *Decider) expires(shown callout.Credentials, client authn.Connection) time.Time {
	life := d.cfg.Life
	if name, isNode := node.Identity(client.User); isNode && name != "" {
		life = d.cfg.NodeLife
	}
	end := time.Now().Add(life - rand.N(life/5+1))
	if ends := tokenEnd(shown.Token); !ends.IsZero() && ends.Before(end) {
		end = ends
	}
	if ends := client.Certificate.Ends; !ends.IsZero() && ends.Before(end) {
		end = ends
	}
	if len(shown.Certificates) > 0 && shown.Certificates[0].NotAfter.Before(end) {
		end = shown.Certificates[0].NotAfter
	}
	return end
}

// Revoked returns why the client with an identity may not keep its connection to NATS: its certificate or
// bootstrap token is not valid any more, or its service account is gone. It returns nil if the client may.
// What a user may watch is not looked at.
func (d *Decider) Revoked(ctx context.Context, identity string) error {
	client, err := Client(identity)
	if err != nil {
		return err
	}
	return d.valid(ctx, client)
}

// tokenEnd returns when a verified token expires; zero if the token does not say.
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
