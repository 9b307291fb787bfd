package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// Config configures a Forwarder.
type Config struct {
	// ResolverConfig is the path of the resolv.conf with the servers to ask and the search domains
	// of the node. It is read again when it changes; none when empty.
	ResolverConfig string
	// StubDomains has the servers for some domains and the names below them.
	StubDomains map[string][]netip.AddrPort
	// Own reports whether this process listens on an address, and so must not be asked; none when nil.
	Own func(netip.AddrPort) bool
	// Server is the value of the label "server" of the metrics.
	Server string
	// Logger logs faults; slog.Default when nil.
	Logger *slog.Logger
	// Registerer registers the metrics; none when nil.
	Registerer prometheus.Registerer
}

// maxFlights is how many questions to servers can be in flight.
const maxFlights = 1024

// Times of what a Forwarder does regularly.
const (
	// reloadTime is how often the resolver configuration is read.
	reloadTime = 5 * time.Second
	// tickTime is how often servers that are down are asked whether they are up.
	tickTime = time.Second
	// markTime is how often servers are checked for loops.
	markTime = 10 * time.Minute
)

// Forwarder asks other DNS servers and keeps their answers. Its methods may be called from several
// goroutines.
type Forwarder struct {
	cfg      Config
	log      *slog.Logger
	stubs    map[string]wire.Name
	cache    *cache
	metrics  *metrics
	exchange func(ctx context.Context, server netip.AddrPort, q *query) (*dns.Msg, error)
	routes   atomic.Pointer[routes]

	// starts has the flights that Run has not started yet: as many as there can be at most.
	starts chan *flight
	// loaded is closed when Run has read the resolver configuration for the first time, ended when
	// Run has ended.
	loaded, ended chan struct{}

	mu      sync.Mutex
	flights map[string]*flight
}

// routes says which servers to ask.
type routes struct {
	servers  group
	stubs    []stub
	searches []wire.Name
}

// stub is a domain with servers of its own.
type stub struct {
	name    wire.Name
	servers group
}

// New creates a Forwarder. It returns an error for a stub domain that is no domain name.
func New(cfg Config) (*Forwarder, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Own == nil {
		cfg.Own = func(netip.AddrPort) bool { return false }
	}
	f := &Forwarder{
		cfg: cfg, log: cfg.Logger, exchange: exchange, stubs: map[string]wire.Name{},
		starts: make(chan *flight, maxFlights), loaded: make(chan struct{}), ended: make(chan struct{}),
		flights: map[string]*flight{},
	}
	for domain := range cfg.StubDomains {
		name, err := wire.ParseName(domain)
		if err != nil {
			return nil, fmt.Errorf("reading the stub domains: %w", err)
		}
		f.stubs[domain] = name
	}
	f.cache = newCache(func(denial bool) { f.metrics.evicted.WithLabelValues(typeOf(denial)).Inc() })
	f.metrics = newMetrics(cfg.Registerer, cfg.Server, f.cache.counts)
	f.routes.Store(&routes{})
	return f, nil
}

// Run reads the resolver configuration, asks servers, and checks how they are. It returns when ctx
// has ended and with it all questions in flight. It runs only once.
func (f *Forwarder) Run(ctx context.Context) error {
	defer close(f.ended)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	reload, tick, marks := time.NewTicker(reloadTime), time.NewTicker(tickTime), time.NewTicker(markTime)
	defer reload.Stop()
	defer tick.Stop()
	defer marks.Stop()
	var conf string
	f.reload(ctx, &tasks, &conf, true)
	close(f.loaded)
	for {
		select {
		case <-ctx.Done():
			return nil
		case fl := <-f.starts:
			tasks.Go(func() { f.fly(ctx, fl) })
		case <-reload.C:
			f.reload(ctx, &tasks, &conf, false)
		case <-tick.C:
			for u := range f.routes.Load().all() {
				if !u.up() && !u.looping.Load() && u.probing.CompareAndSwap(false, true) {
					tasks.Go(func() { f.probe(ctx, u) })
				}
			}
		case <-marks.C:
			for u := range f.routes.Load().all() {
				u.looping.Store(false)
				tasks.Go(func() { f.mark(ctx, u) })
			}
		}
	}
}

// all calls yield with each server once.
func (r *routes) all() func(yield func(*upstream) bool) {
	seen := map[*upstream]bool{}
	for _, u := range r.servers {
		seen[u] = true
	}
	for _, s := range r.stubs {
		for _, u := range s.servers {
			seen[u] = true
		}
	}
	return maps.Keys(seen)
}

// reload reads the resolver configuration and changes the routes if its text is another.
func (f *Forwarder) reload(ctx context.Context, tasks *sync.WaitGroup, conf *string, first bool) {
	text := ""
	if f.cfg.ResolverConfig != "" {
		var err error
		if text, err = readHostConf(f.cfg.ResolverConfig); err != nil {
			if first {
				f.log.Warn("reading the resolver configuration", "err", err)
			}
			text = *conf
		}
	}
	if text == *conf && !first {
		return
	}
	*conf = text
	old := map[netip.AddrPort]*upstream{}
	for u := range f.routes.Load().all() {
		old[u.addr] = u
	}
	made := f.route(parseHostConf(text), old)
	f.routes.Store(made)
	for u := range made.all() {
		if old[u.addr] != u {
			tasks.Go(func() { f.mark(ctx, u) })
		}
	}
}

// route returns the routes for a resolver configuration. Servers that are known already stay, and
// their state with them.
func (f *Forwarder) route(conf hostConf, known map[netip.AddrPort]*upstream) *routes {
	known = maps.Clone(known)
	servers := func(addrs []netip.AddrPort) (g group) {
		for _, addr := range addrs {
			if f.cfg.Own(addr) {
				f.log.Warn("a DNS server to ask is this process itself, and is ignored", "server", addr)
				continue
			}
			if known[addr] == nil {
				known[addr] = newUpstream(addr)
			}
			g = append(g, known[addr])
		}
		return g
	}
	made := &routes{servers: servers(conf.servers), searches: conf.searches}
	for domain, addrs := range f.cfg.StubDomains {
		made.stubs = append(made.stubs, stub{name: f.stubs[domain], servers: servers(addrs)})
	}
	// The most specific domain applies.
	slices.SortFunc(made.stubs, func(a, b stub) int { return b.name.Labels() - a.name.Labels() })
	return made
}

// serversFor returns the servers to ask for a name.
func (r *routes) serversFor(name *wire.Name) group {
	for i := range r.stubs {
		if _, ok := name.Below(&r.stubs[i].name); ok {
			return r.stubs[i].servers
		}
	}
	return r.servers
}

// Stub reports whether a name is in a stub domain below another domain, so that it is not of that
// domain's zone.
func (f *Forwarder) Stub(name, below *wire.Name) bool {
	stubs := f.routes.Load().stubs
	return slices.ContainsFunc(stubs, func(s stub) bool {
		if labels, ok := s.name.Below(below); !ok || labels == 0 {
			return false
		}
		_, ok := name.Below(&s.name)
		return ok
	})
}

// Loaded returns a channel that is closed when Run has read the resolver configuration: before that
// there are no search domains and no servers.
func (f *Forwarder) Loaded() <-chan struct{} { return f.loaded }

// Searches returns the search domains of the node. The caller must not change them.
func (f *Forwarder) Searches() []wire.Name { return f.routes.Load().searches }

// Looped reports whether a question is one with which this Forwarder checks a server for a loop. If
// so, it does not ask that server any more: it would forward the question to this process.
func (f *Forwarder) Looped(name *wire.Name, kind uint16) bool {
	if kind != dns.TypeHINFO {
		return false
	}
	for u := range f.routes.Load().all() {
		if u.mark.Equal(name) {
			if !u.looping.Swap(true) {
				f.log.Error("a DNS server forwards its questions back, and is ignored", "server", u.text)
			}
			return true
		}
	}
	return false
}

// errEnded is the fault of a question that the end of the Forwarder interrupts.
var errEnded = errors.New("the DNS forwarder has ended")
