package dns

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/nodeagent/internal/dns/forward"
	"github.com/garboard/garboard/services/nodeagent/internal/dns/records"
	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// Bounds of what clients can make the server do at the same time.
const (
	// maxWaiting is how many questions over UDP can wait for other servers, and maxClientWaiting how
	// many of them from one address.
	maxWaiting       = 1024
	maxClientWaiting = 256
	// maxConnections is how many connections there can be, and maxClientConnections how many of them
	// from one address.
	maxConnections       = 512
	maxClientConnections = 64
)

// Server is the DNS server of a node.
type Server struct {
	cfg  Config
	log  *slog.Logger
	zone *records.Zone
	// services is the name below which Services are; root the empty name.
	services, root wire.Name
	// own are the addresses of the name server.
	own     []netip.Addr
	forward *forward.Forwarder
	// invalid is why the configuration cannot be used.
	invalid error
	metrics *metrics
	follow  func(ctx context.Context) error

	waiting, connections *limiter

	mu    sync.Mutex
	bound []netip.AddrPort
	// listening is closed when all addresses are served, synced when the zone is whole.
	listening, synced chan struct{}
}

// New creates a Server. Run reports faults of the configuration.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Clients == nil {
		cfg.Clients = func(netip.Addr) bool { return false }
	}
	s := &Server{
		cfg: cfg, log: cfg.Logger,
		waiting: newLimiter(maxWaiting, maxClientWaiting), connections: newLimiter(maxConnections, maxClientConnections),
		listening: make(chan struct{}), synced: make(chan struct{}),
	}
	for _, listen := range cfg.Listen {
		s.own = append(s.own, listen.Addr().Unmap())
	}
	s.metrics = newMetrics(cfg.Registerer)
	s.invalid = s.configure()
	return s
}

// configure sets what depends on the configured names.
func (s *Server) configure() error {
	domain, err := wire.ParseName(s.cfg.Domain)
	if err != nil {
		return fmt.Errorf("reading the cluster's domain: %w", err)
	}
	s.zone = records.New(domain)
	if s.services, err = wire.ParseName("svc." + s.cfg.Domain); err != nil {
		return fmt.Errorf("reading the cluster's domain: %w", err)
	}
	if s.root, err = wire.ParseName("."); err != nil {
		return err
	}
	s.forward, err = forward.New(forward.Config{
		ResolverConfig: s.cfg.ResolverConfig, StubDomains: s.cfg.StubDomains, Own: s.isOwn,
		Server: serverLabel, Logger: s.log, Registerer: s.cfg.Registerer,
	})
	if err != nil {
		return err
	}
	s.follow = s.follower()
	return nil
}

// isOwn reports whether this server listens on an address.
func (s *Server) isOwn(addr netip.AddrPort) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.cfg.Listen, addr) || slices.Contains(s.bound, addr)
}

// Run serves until ctx ends. It returns when all that it has started has ended. It runs only once.
func (s *Server) Run(ctx context.Context) error {
	if s.invalid != nil {
		return s.invalid
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.forward.Run(ctx) })
	group.Go(func() error { return s.follow(ctx) })
	var pending sync.WaitGroup
	pending.Add(len(s.cfg.Listen))
	for _, addr := range s.cfg.Listen {
		group.Go(func() error { return s.listen(ctx, addr, pending.Done) })
	}
	group.Go(func() error {
		pending.Wait()
		if ctx.Err() == nil {
			close(s.listening)
		}
		return nil
	})
	return group.Wait()
}

// Ready waits until the server knows all Services and EndpointSlices and listens on all addresses.
func (s *Server) Ready(ctx context.Context) error {
	if s.invalid != nil {
		return s.invalid
	}
	for what, done := range map[string]chan struct{}{"services and endpoint slices": s.synced, "addresses": s.listening} {
		select {
		case <-done: // also if ctx has ended
			continue
		default:
		}
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the %s of the DNS server: %w", what, ctx.Err())
		}
	}
	return nil
}

// Addresses returns the addresses that are served now, with their ports.
func (s *Server) Addresses() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bound)
}

// follower returns a function that keeps the zone as the informers say.
func (s *Server) follower() func(ctx context.Context) error {
	services := informer.For[*corev1.Service](s.cfg.Factory)
	endpoints := informer.For[*discoveryv1.EndpointSlice](s.cfg.Factory)
	follows := []func() (informer.DoneChecker, func() error, error){
		func() (informer.DoneChecker, func() error, error) { return handle(services, s.serviceHandler()) },
		func() (informer.DoneChecker, func() error, error) { return handle(endpoints, s.sliceHandler()) },
	}
	if s.cfg.Namespaces {
		s.zone.FollowNamespaces()
		namespaces := informer.For[*corev1.Namespace](s.cfg.Factory)
		follows = append(follows, func() (informer.DoneChecker, func() error, error) {
			return handle(namespaces, s.namespaceHandler())
		})
	}
	return func(ctx context.Context) error {
		var checkers []informer.DoneChecker
		for _, follow := range follows {
			checker, stop, err := follow()
			if err != nil {
				return fmt.Errorf("following what DNS records are made of: %w", err)
			}
			defer func() {
				if err := stop(); err != nil {
					s.log.Warn("ending a handler of DNS records", "err", err)
				}
			}()
			checkers = append(checkers, checker)
		}
		if informer.WaitFor(ctx, "DNS records", checkers...) == nil {
			s.zone.MarkSynced()
			close(s.synced)
		}
		<-ctx.Done()
		return nil
	}
}

// handle adds a handler to an informer, until stop is called.
func handle[T informer.Object](
	of informer.SharedInformer[T], handler informer.ResourceEventHandlerFuncs[T],
) (synced informer.DoneChecker, stop func() error, err error) {
	registration, err := of.AddEventHandlerWithOptions(handler, informer.HandlerOptions{Name: "dns"})
	if err != nil {
		return nil, nil, err
	}
	return registration.HasSyncedChecker(), func() error { return of.ShutDownEventHandler(registration) }, nil
}
