package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/shutdown"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
	"github.com/garboard/garboard/services/apiserver/internal/server/routes"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/kubernetesservice"
)

// Server is an apiserver.
type Server struct {
	cfg   Config
	table *scheme.Table
	ready chan struct{} // closed when the server serves
}

// New checks the configuration. It starts and writes nothing.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, table: cfg.Catalog.Table(), ready: make(chan struct{})}, nil
}

// Ready waits until the server serves requests.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the apiserver to be ready: %w", ctx.Err())
	}
}

// Run serves until ctx ends, and returns when everything that it started has ended. When ctx ends,
// watches are closed and requests in flight may finish. It may be called once.
func (s *Server) Run(ctx context.Context) (err error) {
	if err := s.cfg.load(); err != nil {
		return fmt.Errorf("starting the apiserver: %w", err)
	}
	listener := s.cfg.Listener
	if listener == nil {
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen); err != nil {
			return fmt.Errorf("listening on %s: %w", s.cfg.Listen, err)
		}
	}
	defer func() { _ = listener.Close() }() // Already closed unless the start failed.
	keys, err := s.keys(listener)
	if err != nil {
		return err
	}
	front := s.newFront(ctx, keys, listener)
	defer func() { err = errors.Join(err, front.close()) }()
	steps := shutdown.NewSteps(s.cfg.Logger)
	storeConfig, err := s.storeConfig()
	if err != nil {
		return err
	}
	front.gate.Waits("etcd", "etcd at "+strings.Join(s.cfg.EtcdServers, ", ")+" has not answered yet")
	st, err := store.Open(ctx, storeConfig)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, st.Close())
		steps.Done("disconnected from etcd")
	}()
	plane := &plane{
		cfg: s.cfg, table: s.table, keys: keys, store: st, reached: make(chan struct{}), gate: front.gate, started: time.Now(), address: s.cfg.external(listener.Addr()),
		feeds: feed.New(feed.Config{
			Store: st, Table: s.table, Logger: s.cfg.Logger, Registerer: s.cfg.Registerer,
			WindowEvents: s.cfg.Window.Events, WindowBytes: s.cfg.Window.Bytes, History: s.cfg.Window.history(),
		}),
	}
	plane.etcdReady = routes.Shared(st.Ready)
	plane.access = newAccess(s.table, st, plane.feeds)
	ranges, err := s.cfg.serviceCIDRs()
	if err != nil {
		return err
	}
	address, err := s.cfg.advertise(listener.Addr())
	if err != nil {
		return err
	}
	plane.registry, err = registry.New(registry.Config{
		Catalog: s.cfg.Catalog, Store: st, Feeds: plane.feeds, Logger: s.cfg.Logger,
		ServiceCIDRs: ranges, Advertise: address,
		Authorizer: plane.access.authorizer, Admission: []admission.Plugin{plane.access.escalation()},
		EnableAdmission: s.cfg.EnableAdmissionPlugins, DisableAdmission: s.cfg.DisableAdmissionPlugins,
	})
	if err != nil {
		return err
	}
	plane.members = kubernetesservice.New(kubernetesservice.Config{
		Table: s.table, Store: st, Registry: plane.registry, Address: address, Hostname: s.cfg.Hostname, Logger: s.cfg.Logger,
	})
	plane.auditor = plane.newAuditor()
	handler, err := plane.handler()
	if err != nil {
		return err
	}
	return s.run(ctx, plane, handler, front, steps)
}

// keys reads the certificate directory, and creates the missing files unless another program does.
func (s *Server) keys(listener net.Listener) (*pki.Keys, error) {
	if s.cfg.readsKeys() {
		return pki.Read(s.cfg.CertDir, s.cfg.TLSCertFile, s.cfg.TLSKeyFile, s.cfg.Logger)
	}
	hosts, err := s.cfg.hosts(listener.Addr())
	if err != nil {
		return nil, err
	}
	return pki.Open(s.cfg.CertDir, hosts)
}

// run runs the parts of the plane. They end after the HTTP server, which needs them until its last
// request is done.
func (s *Server) run(ctx context.Context, plane *plane, handler http.Handler, front *front, steps *shutdown.Steps) error {
	inner, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, inner := errgroup.WithContext(inner)
	group.Go(func() error { return plane.feeds.Run(inner) })
	group.Go(func() error { return plane.runBus(inner) })
	if plane.auditor != nil {
		group.Go(func() error { return plane.auditor.Run(inner) })
	}
	group.Go(func() error { return plane.store.Compact(inner, s.cfg.EtcdCompactionInterval) })
	group.Go(func() error {
		defer stop()
		// Whichever ends first, ctx or a part of the plane, ends the server.
		serving, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(inner, cancel)()
		front.gate.Waits("watch-cache", "the watch cache is not filled yet")
		if err := plane.feeds.Ready(serving); err != nil {
			return ended(serving, err)
		}
		front.gate.Waits("poststarthook/start-system-namespaces-controller", "the system namespaces do not exist yet")
		if err := plane.registry.Bootstrap(serving); err != nil {
			return ended(serving, err)
		}
		front.gate.Waits("poststarthook/rbac/bootstrap-roles", "the bootstrap roles do not exist yet")
		if err := plane.access.bootstrap(serving, plane.registry, s.cfg.Logger); err != nil {
			return ended(serving, err)
		}
		if err := plane.members.Reconcile(serving); err != nil {
			return ended(serving, err)
		}
		group.Go(func() error { return plane.registry.Run(inner) })
		group.Go(func() error { return plane.members.Run(inner) })
		return s.serve(serving, inner, plane, handler, front, steps)
	})
	err := group.Wait()
	steps.Done("disconnected from NATS, and the publisher handed over")
	return err
}

// ended returns nil if ctx has ended, since err then only comes from that.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("starting the apiserver: %w", err)
}
