package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/readiness"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/shutdown"
	"github.com/garboard/garboard/libs/trace/propagate"
	"github.com/garboard/garboard/services/scheduler/internal/cycle"
)

// leaseNamespace and leaseName identify kube-scheduler's own Lease, by which one replica is
// elected.
const (
	leaseNamespace = "kube-system"
	leaseName      = "kube-scheduler"
)

// Scheduler is one replica of the service.
type Scheduler struct {
	cfg Config
	// informers are the run's; nil before Run.
	informers atomic.Pointer[informer.Factory]
	conn      atomic.Pointer[bus.Conn]
}

// New returns a scheduler. It starts nothing and makes no call; an error describes the faults of
// the configuration.
func New(cfg Config) (*Scheduler, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	// This client only checks the configuration: Run creates its own.
	if _, err := client.New(cfg.API, scheme.New()); err != nil {
		return nil, fmt.Errorf("configuring the scheduler: %w", err)
	}
	return &Scheduler{cfg: cfg}, nil
}

// Run schedules pods while this replica leads, until ctx ends. It returns when everything that it
// started has ended.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.cfg.identify(); err != nil {
		return fmt.Errorf("starting the scheduler: %w", err)
	}
	// Until NATS is up, the informers follow everything over HTTP.
	conn, err := bus.Dial(client.BusConfig(s.cfg.API, s.cfg.Bus))
	if err != nil {
		return fmt.Errorf("starting the scheduler: %w", err)
	}
	var steps *shutdown.Steps
	defer func() {
		conn.Close()
		if steps != nil {
			steps.Done("the connections are closed")
		}
	}()
	s.conn.Store(conn)
	api, end, err := client.Connect(context.WithoutCancel(ctx), client.As(s.cfg.API, "kube-scheduler"), scheme.New(), s.cfg.Transport, conn, s.cfg.Logger)
	if err != nil {
		return fmt.Errorf("starting the scheduler: %w", err)
	}
	defer end()
	source := fabricsource.New(fabricsource.Config{
		Conn: conn, Table: api.Table(), Client: api, Logger: s.cfg.Logger, Registerer: s.cfg.Registerer,
	})
	// The connections stay open until the Lease is released.
	defer func() { steps = shutdown.NewSteps(s.cfg.Logger) }()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.run(ctx, api, source) })
	group.Go(func() error { return report.Serve(ctx, conn, s.self()) })
	group.Go(func() error { return propagate.Listen(ctx, conn, s.cfg.Trace) })
	return group.Wait()
}

// self describes this replica to the status reports.
func (s *Scheduler) self() report.Self {
	return report.Self{
		Service: report.Scheduler, Replica: s.cfg.Identity, Version: s.cfg.Version, Ready: s.Ready, Watchers: s.Watchers, Logger: s.cfg.Logger,
		Certificates: func() []report.Certificate {
			return report.CertificatesIn(report.APIClient, s.cfg.API.CertData, s.cfg.API.CertFile)
		},
	}
}

// Ready returns nil once this replica could take over: its informers hold whole views, for which
// Ready waits until ctx ends. Otherwise the error says why not, and what it waits for.
func (s *Scheduler) Ready(ctx context.Context) error {
	var causes readiness.Causes
	if s.cfg.Transport != client.TransportNATS {
		causes.API = func(ctx context.Context) error { return client.Answers(ctx, s.cfg.API) }
	}
	if conn := s.conn.Load(); conn != nil {
		causes.NATS = conn.Lost
	}
	factory := s.informers.Load()
	if factory == nil {
		return errors.New("the scheduler is not connected yet")
	}
	return readiness.Check(ctx, factory, causes)
}

// Watchers returns what this replica follows, and how far it and its handlers lag behind; nil
// before Run.
func (s *Scheduler) Watchers() []watcher.Status {
	factory := s.informers.Load()
	if factory == nil {
		return nil
	}
	return factory.Watchers()
}

// run schedules with any client and source.
func (s *Scheduler) run(ctx context.Context, api client.Interface, source informer.Source) error {
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: source, Table: api.Table(), Logger: s.cfg.Logger, Registerer: s.cfg.Registerer,
		Trace: s.cfg.Trace, Service: "scheduler",
	})
	s.informers.Store(factory)
	recorder := events.New(api, s.cfg.SchedulerName, "").WithLogger(s.cfg.Logger)
	loop := cycle.New(cycle.Config{
		Client: api, Informers: factory, SchedulerName: s.cfg.SchedulerName, Events: recorder,
		Logger: s.cfg.Logger, Registerer: s.cfg.Registerer, Trace: s.cfg.Trace,
	})
	err := shutdown.Run(ctx, s.cfg.Logger, shutdown.Stage{Ended: "scheduling has ended, and the lease is given up", Run: func(ctx context.Context) error {
		return election.Run(ctx, election.Config{
			Client: api, Namespace: leaseNamespace, Name: s.leaseName(), Identity: s.cfg.Identity, Timing: s.cfg.Election,
			Logger: s.cfg.Logger, Registerer: s.cfg.Registerer, CatchUp: factory.WaitForRevision,
		}, loop.Run)
	}}, shutdown.Stage{Ended: "the events are written", Run: recorder.Run}, shutdown.Stage{Ended: "the informers have ended", Run: factory.Run})
	if err != nil {
		return fmt.Errorf("running the scheduler: %w", err)
	}
	return nil
}

// leaseName returns Kubernetes' name for the default scheduler. Other schedulers have a Lease of
// their own, so that they can lead at the same time.
func (s *Scheduler) leaseName() string {
	if s.cfg.SchedulerName == corev1.DefaultSchedulerName {
		return leaseName
	}
	return leaseName + "-" + s.cfg.SchedulerName
}
