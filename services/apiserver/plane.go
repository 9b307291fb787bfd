package apiserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/nodeproxy"
	"github.com/garboard/garboard/services/apiserver/internal/http/audit"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn/openid"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/filters"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
	"github.com/garboard/garboard/services/apiserver/internal/server/routes"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	etcdsnapshot "github.com/garboard/garboard/services/apiserver/internal/storage/snapshot"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/kubernetesservice"
)

// plane holds the parts of a running apiserver.
type plane struct {
	cfg      Config
	table    *scheme.Table
	keys     *pki.Keys
	store    *store.Store
	feeds    *feed.Feeds
	registry *registry.Registry
	access   *access
	auditor  *audit.Auditor
	users    *authn.Authenticator
	address  string                   // HOST:PORT by which clients reach the server
	conn     atomic.Pointer[bus.Conn] // nil until NATS is reached
	reached  chan struct{}            // closed when NATS is reached
	gate     *drain.Gate
	members  *kubernetesservice.Member
	started  time.Time
	// etcdReady checks etcd. Any client may ask for it and each check is a quorum read, so
	// concurrent callers share one.
	etcdReady func(ctx context.Context) error
}

// handler builds the handler of all requests.
func (p *plane) handler() (http.Handler, error) {
	answers := response.New(p.table, p.cfg.Logger)
	metrics := filters.NewMetrics(p.cfg.Registerer)
	p.measureCertificates()
	accounts, err := p.serviceAccounts()
	if err != nil {
		return nil, err
	}
	authenticator, err := p.authenticator(accounts)
	if err != nil {
		return nil, err
	}
	p.users = authenticator
	api, err := rest.New(rest.Config{
		Table: p.table, Registry: p.registry, Answers: answers, Logs: logs{p, answers}, Tokens: accounts, Fences: fences{p},
		Reviews: p.reviews(authenticator), Observations: p.observations(), Logger: p.cfg.Logger, Trace: p.cfg.Trace, Watching: p.watching, Sent: metrics.Sent,
	})
	if err != nil {
		return nil, err
	}
	other, err := p.other(answers, accounts)
	if err != nil {
		return nil, err
	}
	return filters.New(filters.Config{
		API: api, Other: other, Authenticator: authenticator, Authorizer: p.access.authorizer, Answers: answers, Logger: p.cfg.Logger,
		Metrics: metrics, Audit: p.auditor, Trace: p.cfg.Trace, Timeout: p.cfg.RequestTimeout,
		Limits: filters.Limits{Reads: p.cfg.MaxReads, Writes: p.cfg.MaxWrites, NoShares: p.cfg.NoShares},
	}), nil
}

// other returns the handler of the paths that are not resources.
func (p *plane) other(answers *response.Answerer, accounts *authn.ServiceAccounts) (http.Handler, error) {
	ranges, err := p.cfg.serviceCIDRs()
	if err != nil {
		return nil, err
	}
	groups := discovery.New(p.table, answers, discovery.Addresses{
		External: p.address, Services: ranges[0], Internal: net.JoinHostPort(ranges[0].Addr().Next().String(), "443"),
	})
	schemas := openapi.New(p.table, routes.APIVersion())
	get := func(handler http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				w.Header().Set("Allow", "GET, HEAD")
				answers.Error(w, r, response.MethodNotAllowed())
				return
			}
			handler.ServeHTTP(w, r)
		})
	}
	mux := http.NewServeMux()
	for _, health := range p.health() {
		mux.Handle(health.Path, get(health))
		mux.Handle(health.Path+"/", get(health))
	}
	mux.Handle("/version", get(routes.ServeVersion(answers)))
	mux.Handle("/version/", get(routes.ServeVersion(answers)))
	mux.Handle("/metrics", get(promhttp.HandlerFor(p.cfg.Gatherer, promhttp.HandlerOpts{})))
	mux.Handle("/debug/garboard/trace", get(routes.ServeTrace(answers, p.cfg.Trace)))
	mux.Handle(snapshot.Path, get(etcdsnapshot.New(etcdsnapshot.Config{Store: p.store, Answers: answers, Logger: p.cfg.Logger, Ending: p.gate.Refusing()})))
	inspector := p.inspector()
	mux.Handle(report.StatusPath, get(inspector.ServeStatus(answers)))
	mux.Handle(report.WatchersPath, get(inspector.ServeWatchers(answers)))
	for path, handler := range p.cfg.Debug {
		mux.Handle(path, get(handler))
	}
	if p.cfg.Profiling {
		routes.ServeProfiles(mux)
	}
	mux.Handle("/openapi/", get(schemas))
	p.serveOpenID(mux, get, accounts)
	mux.Handle("/{$}", get(routes.ServePaths(answers, []string{
		openid.ConfigurationPath, "/api", "/api/v1", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2", "/openapi/v3", openid.KeysPath, "/readyz", "/version",
	})))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if groups.Serves(r.URL.Path) {
			groups.ServeHTTP(w, r)
			return
		}
		answers.Error(w, r, response.NotFound())
	})
	return mux, nil
}

// health returns the health checks: a process that responds is live, one that can serve is ready.
func (p *plane) health() []*routes.Health {
	ping := routes.Check{Name: "ping", Run: func(context.Context) error { return nil }}
	etcd := routes.Check{Name: "etcd", Run: p.etcdReady}
	caches := routes.Check{Name: "watch-cache", Run: p.feeds.Ready}
	roles := routes.Check{Name: "poststarthook/rbac/bootstrap-roles", Run: p.access.checkRoles}
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

// logs serves the logs of pods.
type logs struct {
	plane   *plane
	answers *response.Answerer
}

// ServeLogs serves GET pods/NAME/log.
func (l logs) ServeLogs(w http.ResponseWriter, r *http.Request, namespace, name string) {
	if err := l.serve(w, r, namespace, name); err != nil {
		l.answers.Error(w, r, err)
	}
}

func (l logs) serve(w http.ResponseWriter, r *http.Request, namespace, name string) error {
	opts, err := nodeproxy.ParseLogOptions(name, r.URL.Query())
	if err != nil {
		return err
	}
	obj, err := l.plane.registry.Resource(scheme.For[*corev1.Pod](l.plane.table)).Get(r.Context(), namespace, name)
	if err != nil {
		return err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return errors.New("reading a pod: the registry returned another object")
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var opener nodeproxy.Opener = offline{}
	if conn := l.plane.conn.Load(); conn != nil {
		opener = conn
	}
	stream, err := nodeproxy.OpenLog(ctx, opener, pod, opts)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	// A followed log ends when the server shuts down.
	watch := l.plane.gate.Watch()
	defer watch.Close()
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case <-watch.Ended():
			cancel()
		case <-ended:
		}
	}()
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(http.StatusOK)
	copyLog(w, stream)
	return nil
}

// copyLog copies a log and flushes each part at once.
func copyLog(w http.ResponseWriter, from io.Reader) {
	control := http.NewResponseController(w)
	_ = control.Flush() // If the client is gone, the next write fails.
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, err := w.Write(buffer[:n]); err != nil {
				return
			}
			_ = control.Flush()
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			// A partial log must not look complete to the client.
			panic(http.ErrAbortHandler)
		}
	}
}

// offline stands for the bus until it is reached.
type offline struct{}

func (offline) OpenStream(context.Context, string, []byte) (io.ReadCloser, error) {
	return nil, bus.ErrDisconnected
}
