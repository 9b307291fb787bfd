package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodemetrics"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/openid"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/filters"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/server/inspect"
	"github.com/garboard/garboard/services/apiserver/internal/server/routes"
	"github.com/garboard/garboard/services/apiserver/internal/server/routes/zpages"
	etcdsnapshot "github.com/garboard/garboard/services/apiserver/internal/storage/snapshot"
)

// newHandler builds the handler of all requests.
func (p *plane) newHandler(accounts *authn.ServiceAccounts) (http.Handler, error) {
	encoder := response.New(p.table, p.cfg.Logger)
	p.aggregate(encoder)
	if err := p.meetPeers(encoder); err != nil {
		return nil, err
	}
	metrics := filters.NewMetrics(p.cfg.Registerer, p.table)
	p.measureCertificates()
	p.measureExpressions()
	api, err := rest.New(rest.Config{
		Table: p.table, Registry: p.registry, Encoder: encoder, Fences: p.access.Fences(), Parts: p.parts(encoder, accounts),
		Reviews: p.reviews(p.users), Observations: p.observations(), Logger: p.cfg.Logger, Trace: p.cfg.Trace, Watching: p.watching, Sent: metrics.Sent,
	})
	if err != nil {
		return nil, err
	}
	other, err := p.other(encoder, accounts)
	if err != nil {
		return nil, err
	}
	origins, err := p.cfg.Serving.Origins()
	if err != nil {
		return nil, err
	}
	return filters.New(filters.Config{
		API: api, Other: other, Remote: elsewhere{p.remote, p.peers}, Authenticator: p.users, Authorizer: p.access.Authorizer(), Encoder: encoder, Logger: p.cfg.Logger,
		Metrics: metrics, Audit: p.auditor, Trace: p.cfg.Trace, Timeout: p.cfg.Limits.RequestTimeout,
		Origins: origins, GoawayChance: p.cfg.Serving.GoawayChance,
		Limits: filters.Limits{
			Reads: p.cfg.Limits.MaxReads, Writes: p.cfg.Limits.MaxWrites, Sessions: p.cfg.Limits.MaxSessions, NoShares: p.cfg.Limits.NoShares,
		},
	}), nil
}

// other returns the handler of the paths that are not resources.
func (p *plane) other(encoder *response.Encoder, accounts *authn.ServiceAccounts) (http.Handler, error) {
	ranges, err := p.cfg.ServiceCIDRs()
	if err != nil {
		return nil, err
	}
	groups := p.discoveries(discovery.Config{
		Table: p.table, Encoder: encoder, Priority: priority,
		Addresses: discovery.Addresses{
			External: p.address, Services: ranges[0], Internal: net.JoinHostPort(ranges[0].Addr().Next().String(), "443"),
		},
	})
	schemas := openapi.New(p.table, routes.APIVersion(), p.catalog.Of, p.remote)
	// Kubernetes serves these paths for GET alone, and those below without a wrapper for every method.
	get := only(encoder, http.MethodGet)
	own := only(encoder, http.MethodGet, http.MethodHead)
	mux := http.NewServeMux()
	for _, health := range p.health() {
		mux.Handle(health.Path, health)
		mux.Handle(health.Path+"/", health)
	}
	mux.Handle("/version", get(routes.ServeVersion(encoder)))
	mux.Handle("/version/", get(routes.ServeVersion(encoder)))
	mux.Handle("/metrics", promhttp.HandlerFor(p.cfg.Gatherer, promhttp.HandlerOpts{}))
	mux.Handle("/debug/garboard/trace", own(routes.ServeTrace(encoder, p.cfg.Trace)))
	mux.Handle(snapshot.Path, own(etcdsnapshot.New(etcdsnapshot.Config{Store: p.store, Encoder: encoder, Logger: p.cfg.Logger, Ending: p.gate.Refusing()})))
	p.front.tunnels.encoder = encoder
	mux.Handle(nodeapi.TunnelPath, get(p.front.tunnels))
	inspector := p.inspector()
	mux.Handle(report.StatusPath, own(inspector.ServeStatus(encoder)))
	mux.Handle(report.WatchersPath, own(inspector.ServeWatchers(encoder)))
	for path, handler := range p.cfg.Debug {
		mux.Handle(path, own(handler))
	}
	if p.cfg.Profiling {
		routes.ServeProfiles(mux)
	}
	mux.Handle("/openapi/", schemas)
	p.serveOpenID(mux, get, accounts)
	paths := []string{
		openid.ConfigurationPath, "/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", openid.KeysPath, "/readyz", "/statusz", "/version",
	}
	mux.Handle("/{$}", routes.ServePaths(encoder, paths))
	zpages.Serve(mux, routes.APIVersion(), paths, p.cfg.Flags)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if found := groups(r); found.Serves(r.URL.Path) {
			found.ServeHTTP(w, r)
			return
		}
		encoder.Error(w, r, response.NotFound())
	})
	return mux, nil
}

// only returns a wrapper that serves some methods and refuses the others.
func only(encoder *response.Encoder, methods ...string) func(http.Handler) http.Handler {
	return func(handler http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !slices.Contains(methods, r.Method) {
				w.Header().Set("Allow", strings.Join(methods, ", "))
				encoder.Error(w, r, response.MethodNotAllowed())
				return
			}
			handler.ServeHTTP(w, r)
		})
	}
}

// health returns the health checks: a process that responds is live, one that can serve is ready.
func (p *plane) health() []*routes.Health {
	ping := routes.Check{Name: "ping", Run: func(context.Context) error { return nil }}
	etcd := routes.Check{Name: "etcd", Run: p.etcdReady}
	caches := routes.Check{Name: "watch-cache", Run: p.feeds.Ready}
	roles := routes.Check{Name: "poststarthook/rbac/bootstrap-roles", Run: p.access.CheckRoles}
	draining := routes.Check{Name: "shutdown", Run: func(context.Context) error {
		select {
		case <-p.gate.Announced():
			return errors.New("the server is shutting down")
		default:
			return nil
		}
	}}
	return []*routes.Health{
		{Path: "/livez", Checks: []routes.Check{ping}, Logger: p.cfg.Logger},
		{Path: readyPath, Checks: []routes.Check{ping, etcd, caches, roles, draining}, Logger: p.cfg.Logger},
		{Path: "/healthz", Checks: []routes.Check{ping, etcd, roles}, Logger: p.cfg.Logger},
	}
}

// watching registers a watch; end is closed when the watch must end.
func (p *plane) watching() (end <-chan struct{}, over func()) {
	watch := p.gate.Watch()
	return watch.Ended(), watch.Close
}

// observations returns the functions that observe the observed kinds.
func (p *plane) observations() map[schema.GroupVersionKind]rest.Observation {
	measured := nodemetrics.New(nodemetrics.Config{
		To: p.nodes.To, Pods: p.cached(scheme.For[*corev1.Pod](p.table)), Nodes: p.cached(scheme.For[*corev1.Node](p.table)),
		Logger: p.cfg.Logger, Registerer: p.cfg.Registerer,
	})
	return map[schema.GroupVersionKind]rest.Observation{
		corev1.SchemeGroupVersion.WithKind("ComponentStatus"): func(ctx context.Context, _, _ string, _ func(metav1.Object) bool) ([]scheme.Object, error) {
			return inspect.Components(ctx, p.registry.Resource(scheme.For[*coordinationv1.Lease](p.table)), p.store.Clusters()), nil
		},
		metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics"): measured.Nodes,
		metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics"):  measured.Pods,
	}
}

// cached returns a function that lists what the watch cache has of a kind: the objects of a namespace, or of all
// if it is empty; only the one with a name unless that is empty.
func (p *plane) cached(kind *scheme.Kind) func(ctx context.Context, namespace, name string) ([]scheme.Object, error) {
	return func(ctx context.Context, namespace, name string) ([]scheme.Object, error) {
		opts := metav1.ListOptions{ResourceVersion: "0"}
		if name != "" {
			opts.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}
		listing, err := p.registry.Resource(kind).Read(ctx, namespace, opts)
		if err != nil {
			return nil, err
		}
		return listing.Objects(), nil
	}
}
