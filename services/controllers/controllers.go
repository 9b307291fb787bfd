package controllers

import (
	"context"
	"fmt"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/controllers/internal/aggregatedkinds"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
	"github.com/garboard/garboard/services/controllers/internal/garbage"
	"github.com/garboard/garboard/services/controllers/internal/podcache"
	"github.com/garboard/garboard/services/controllers/internal/tap"
)

// Service is one replica of the controllers.
type Service struct {
	cfg   Config
	shell *service.Shell

	// build sets these.
	informers   *informer.Factory
	definitions *customresources.Definitions
	aggregated  *aggregatedkinds.Kinds
	collector   *garbage.Collector // nil unless it runs here
	controllers []runner
}

// New checks the configuration and returns a replica. It opens no connection and reads no file.
func New(cfg Config) (*Service, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, shell: service.New(cfg.Service, service.Role{
		Name: report.Controllers, Component: "kube-controller-manager", Unready: "the controllers are not connected yet",
		WithoutManagers: true,
	})}, nil
}

// Run follows the API and, while this replica leads, runs the controllers until ctx ends. It
// returns when everything that it started has ended.
func (s *Service) Run(ctx context.Context) error {
	return lifecycle.Run(ctx, s.cfg.Service.Logger,
		lifecycle.Stage{Name: "root certificate", Start: s.cfg.load},
		s.shell.Connections(),
		lifecycle.Stage{Name: "informers", Start: s.build, Run: s.follow},
		s.shell.Reports(),
		// Its end releases the Lease.
		lifecycle.Stage{Name: "leading", Run: s.lead},
	)
}

// Ready returns nil once this replica could take over: its informers hold whole views, for which
// Ready waits until ctx ends. Otherwise the error says why not, and what it waits for.
func (s *Service) Ready(ctx context.Context) error { return s.shell.Ready(ctx) }

// Watchers returns what this replica follows, and how far it and its handlers lag behind; nil
// before Run.
func (s *Service) Watchers() []watcher.Status { return s.shell.Watchers() }

// build creates the controllers and the informers that they need.
func (s *Service) build(context.Context) error {
	source := tap.New(s.shell.Source())
	s.informers = s.shell.NewInformersOf(source)
	if err := podcache.Trim(s.informers); err != nil {
		return fmt.Errorf("trimming the cached pods: %w", err)
	}
	deps := controller.Deps{
		Client: controller.Client(s.shell.Client()), Informers: s.informers, Roots: &controller.Roots{},
		Logger: s.cfg.Service.Logger, Registerer: s.cfg.Service.Registerer, Trace: s.cfg.Service.Trace,
	}
	s.definitions, s.aggregated = customresources.New(deps), aggregatedkinds.New(deps)
	for _, entry := range s.table(deps, s.shell.Source()) {
		if !enabled(entry.name, s.cfg.Controllers) {
			s.cfg.Service.Logger.Info("a controller does not run here", "controller", entry.name, "controllers", s.cfg.Controllers)
			continue
		}
		c, err := entry.build()
		if err != nil {
			return fmt.Errorf("building the controller %s: %w", entry.name, err)
		}
		if c != nil {
			s.controllers = append(s.controllers, c)
		}
	}
	if s.collector != nil {
		s.collector.Tap(source) // All informers of the controllers exist, and none runs.
	}
	s.shell.Follow(s.informers)
	return nil
}

func (s *Service) follow(ctx context.Context) error {
	runs := []func(context.Context) error{s.informers.Run, s.definitions.Follow, s.aggregated.Run}
	if s.collector != nil {
		runs = append(runs, s.collector.Follow)
	}
	return controller.RunAll(ctx, runs...)
}

// lead runs the controllers while this replica holds the Lease.
func (s *Service) lead(ctx context.Context) error {
	return s.shell.Lead(ctx, s.cfg.LeaseName, s.cfg.Election, s.informers, func(ctx context.Context) error {
		runs := make([]func(context.Context) error, len(s.controllers))
		for i, c := range s.controllers {
			runs[i] = c.Run
		}
		return controller.RunAll(ctx, runs...)
	})
}
