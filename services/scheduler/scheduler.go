package scheduler

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/scheduler/internal/cycle"
)

// leaseName is kube-scheduler's own Lease in kube-system, by which one replica is elected.
const leaseName = "kube-scheduler"

// Scheduler is one replica of the service.
type Scheduler struct {
	cfg   Config
	shell *service.Shell

	// build sets these.
	informers *informer.Factory
	events    *events.Recorder
	loop      *cycle.Loop
}

// New returns a scheduler. It starts nothing and makes no call; an error describes the faults of
// the configuration.
func New(cfg Config) (*Scheduler, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Scheduler{cfg: cfg, shell: service.New(cfg.Service, service.Role{
		Name: report.Scheduler, Component: "kube-scheduler", Unready: "the scheduler is not connected yet",
		WithoutManagers: true,
	})}, nil
}

// Run schedules pods while this replica leads, until ctx ends. It returns when everything that it
// started has ended.
func (s *Scheduler) Run(ctx context.Context) error {
	return lifecycle.Run(ctx, s.cfg.Service.Logger,
		s.shell.Connections(),
		lifecycle.Stage{Name: "informers", Start: s.build, Run: func(ctx context.Context) error { return s.informers.Run(ctx) }},
		s.shell.Reports(),
		lifecycle.Stage{Name: "events", Run: func(ctx context.Context) error { return s.events.Run(ctx) }},
		// Its end releases the Lease.
		lifecycle.Stage{Name: "leading", Run: s.lead},
	)
}

// Ready returns nil once this replica could take over: its informers hold whole views, for which
// Ready waits until ctx ends. Otherwise the error says why not, and what it waits for.
func (s *Scheduler) Ready(ctx context.Context) error { return s.shell.Ready(ctx) }

// Watchers returns what this replica follows, and how far it and its handlers lag behind; nil
// before Run.
func (s *Scheduler) Watchers() []watcher.Status { return s.shell.Watchers() }

// build creates the scheduler's loop, and the informers that it needs.
func (s *Scheduler) build(context.Context) error {
	api, cfg := s.shell.Client(), s.cfg.Service
	s.informers = s.shell.NewInformers()
	s.events = events.New(api, s.cfg.SchedulerName, "").WithLogger(cfg.Logger)
	s.loop = cycle.New(cycle.Config{
		Client: api, Informers: s.informers, SchedulerName: s.cfg.SchedulerName, Events: s.events,
		Logger: cfg.Logger, Registerer: cfg.Registerer, Trace: cfg.Trace,
	})
	s.shell.Follow(s.informers)
	return nil
}

// lead schedules pods while this replica holds the Lease.
func (s *Scheduler) lead(ctx context.Context) error {
	return s.shell.Lead(ctx, s.leaseName(), s.cfg.Election, s.informers, s.loop.Run)
}

// leaseName returns Kubernetes' name for the default scheduler. Other schedulers have a Lease of
// their own, so that they can lead at the same time.
func (s *Scheduler) leaseName() string {
	if s.cfg.SchedulerName == corev1.DefaultSchedulerName {
		return leaseName
	}
	return leaseName + "-" + s.cfg.SchedulerName
}
