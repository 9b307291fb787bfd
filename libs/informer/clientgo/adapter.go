package clientgo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/scheme"
)

// maxViews is how many views are followed at a time; the apiserver answers requests for further
// views.
const maxViews = 1024

// DefaultLinger is the default of Config.Linger.
const DefaultLinger = 2 * time.Minute

// Config configures an Adapter.
type Config struct {
	// REST configures the connection to the apiserver over HTTP, and its user.
	REST *rest.Config
	// Conn is the connection to the bus. Its permissions to read should cover those of REST.
	Conn *bus.Conn
	// Source follows views in place of Conn; may be nil.
	Source informer.Source
	// Table holds the served kinds; scheme.New when nil.
	Table *scheme.Table
	// Linger is how long a view without watches is still followed, so that the next watch can
	// continue where the last one ended; DefaultLinger when 0.
	Linger time.Duration
	// Patience bounds two waits of a request: for a view to be new enough, and for the review of
	// whether its user may see it. After that the request goes to the apiserver. DefaultPatience
	// when 0.
	Patience time.Duration
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer, if set, registers the metrics.
	Registerer prometheus.Registerer
}

// Adapter answers lists and watches from views that it follows while it runs. While it does not
// run, everything goes over HTTP.
type Adapter struct {
	rest     *rest.Config
	prefix   string
	source   informer.Source
	table    *scheme.Table
	formats  []runtime.SerializerInfo
	linger   time.Duration
	patience time.Duration
	logger   *slog.Logger
	metrics  *metrics
	custom   *custom

	mu      sync.Mutex
	started bool
	open    bool
	views   map[viewKey]*view
	fresh   []*view
	wake    chan struct{}
}

type viewKey struct {
	kind *scheme.Kind
	view informer.View
}

// New creates an adapter. It starts nothing.
func New(cfg Config) (*Adapter, error) {
	if cfg.REST == nil || cfg.REST.Host == "" {
		return nil, errors.New("adapting client-go: no apiserver address is set")
	}
	address, _, err := rest.DefaultServerUrlFor(cfg.REST)
	if err != nil {
		return nil, fmt.Errorf("adapting client-go: %w", err)
	}
	a := &Adapter{
		rest: cfg.REST, prefix: prefixOf(address), source: cfg.Source, table: cfg.Table, linger: cfg.Linger, patience: cfg.Patience,
		logger: cfg.Logger, metrics: newMetrics(cfg.Registerer), views: map[viewKey]*view{}, wake: make(chan struct{}, 1),
	}
	if a.table == nil {
		a.table = scheme.New()
	}
	if a.linger == 0 {
		a.linger = DefaultLinger
	}
	if a.patience == 0 {
		a.patience = DefaultPatience
	}
	if a.logger == nil {
		a.logger = slog.New(slog.DiscardHandler)
	}
	a.custom = newCustom(a.prefix, a.patience)
	a.formats = a.table.Codecs().SupportedMediaTypes()
	if a.source == nil {
		if cfg.Conn == nil {
			return nil, errors.New("adapting client-go: no connection to NATS is set")
		}
		over, err := client.New(cfg.REST, a.table)
		if err != nil {
			return nil, fmt.Errorf("adapting client-go: %w", err)
		}
		a.source = fabricsource.New(fabricsource.Config{Conn: cfg.Conn, Table: a.table, Client: over, Logger: a.logger,
			Registerer: cfg.Registerer})
	}
	return a, nil
}

// prefixOf returns the path below which the apiserver serves, without a trailing slash.
func prefixOf(address *url.URL) string { return strings.TrimRight(address.Path, "/") }

// Wrap returns a configuration whose clients have their lists and watches answered from NATS until
// ctx ends, and by the apiserver afterwards. The followers of the views end with ctx; a caller that
// wants to wait for that uses an Adapter.
func Wrap(ctx context.Context, config *rest.Config, conn *bus.Conn) (*rest.Config, error) {
	a, err := New(Config{REST: config, Conn: conn})
	if err != nil {
		return nil, err
	}
	go func() { _ = a.Run(ctx) }() // It cannot fail: it runs once.
	return a.Config(), nil
}

// Config returns the adapter's REST configuration, wrapped.
func (a *Adapter) Config() *rest.Config {
	wrapped := rest.CopyConfig(a.rest)
	wrapped.Wrap(a.RoundTripper)
	return wrapped
}

// RoundTripper wraps a transport that carries requests with their credentials to the apiserver.
func (a *Adapter) RoundTripper(next http.RoundTripper) http.RoundTripper {
	return &transport{adapter: a, next: next, access: newAccess(a.prefix, next, a.patience)}
}

// Run follows the requested views until ctx ends, and returns when all have ended. Open watches end
// then. An adapter runs only once.
func (a *Adapter) Run(ctx context.Context) error {
	a.mu.Lock()
	if a.started {
		a.mu.Unlock()
		return errors.New("running the client-go adapter: already started")
	}
	a.started, a.open = true, true
	a.mu.Unlock()

	var group errgroup.Group
	sweep := time.NewTicker(max(a.linger/4, time.Millisecond))
	defer sweep.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-sweep.C:
			a.sweep(time.Now())
		case <-a.wake:
			a.startFresh(ctx, &group)
		}
	}
	a.mu.Lock()
	a.open = false
	for _, v := range a.fresh {
		v.end()
	}
	a.fresh = nil
	a.mu.Unlock()
	return group.Wait()
}

// startFresh follows the views requested since its last call.
func (a *Adapter) startFresh(ctx context.Context, group *errgroup.Group) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range a.fresh {
		running, stop := context.WithCancel(ctx)
		v.stop = stop
		group.Go(func() error {
			defer stop()
			defer a.forget(v)
			if err := v.follower.Run(running); err != nil && running.Err() == nil {
				a.logger.Error("cannot follow a view; its lists and watches go over HTTP", "resource", v.kind.GroupResource(), "err", err)
			}
			return nil
		})
	}
	a.fresh = nil
}

// forget ends a view that is no longer followed.
func (a *Adapter) forget(v *view) {
	a.mu.Lock()
	if key := (viewKey{v.kind, v.of}); a.views[key] == v {
		delete(a.views, key)
	}
	a.mu.Unlock()
	v.end()
}

// sweep stops following views that have had no users for a while.
func (a *Adapter) sweep(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, v := range a.views {
		if v.users == 0 && now.Sub(v.idle) >= a.linger && v.stop != nil {
			v.stop()
			delete(a.views, key)
		}
	}
}

// acquire returns a view that is followed at least until release is called. It returns nil and the
// reason if the adapter does not run or follows too many views.
func (a *Adapter) acquire(kind *scheme.Kind, of informer.View) (v *view, release func(), why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.open {
		return nil, nil, whyNotRunning
	}
	key := viewKey{kind, of}
	v = a.views[key]
	if v == nil {
		if len(a.views) >= maxViews {
			return nil, nil, whyTooMany
		}
		v = newView(kind, of)
		v.follower = a.source.Follower(kind, of, v)
		a.views[key] = v
		a.fresh = append(a.fresh, v)
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	v.users++
	return v, sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		v.users--
		v.idle = time.Now()
	}), ""
}
