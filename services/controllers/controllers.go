package controllers

import (
	"context"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/controllers/internal/bootstrapsigner"
	"github.com/garboard/garboard/services/controllers/internal/clusterroleaggregation"
	"github.com/garboard/garboard/services/controllers/internal/control"
	"github.com/garboard/garboard/services/controllers/internal/csrapprover"
	"github.com/garboard/garboard/services/controllers/internal/csrcleaner"
	"github.com/garboard/garboard/services/controllers/internal/csrsigner"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
	"github.com/garboard/garboard/services/controllers/internal/deployment"
	"github.com/garboard/garboard/services/controllers/internal/disruption"
	"github.com/garboard/garboard/services/controllers/internal/garbage"
	"github.com/garboard/garboard/services/controllers/internal/namespace"
	"github.com/garboard/garboard/services/controllers/internal/nodelifecycle"
	"github.com/garboard/garboard/services/controllers/internal/replicaset"
	"github.com/garboard/garboard/services/controllers/internal/resourcequota"
	"github.com/garboard/garboard/services/controllers/internal/rootca"
	"github.com/garboard/garboard/services/controllers/internal/serviceaccount"
	"github.com/garboard/garboard/services/controllers/internal/servicecidrs"
	"github.com/garboard/garboard/services/controllers/internal/storageversionmigrator"
	"github.com/garboard/garboard/services/controllers/internal/tokencleaner"
)

// leaseName is the Lease in kube-system by which one replica leads. It is Kubernetes' own, so that a
// kube-controller-manager on the same cluster and this service never both act.
const leaseName = "kube-controller-manager"

// Service is one replica of the controllers.
type Service struct {
	cfg   Config
	shell *service.Shell

	// build sets these.
	informers   *informer.Factory
	definitions *customresources.Definitions
	collector   *garbage.Collector
	controllers []controller
}

// New checks the configuration and returns a replica. It opens no connection and reads no file.
func New(cfg Config) (*Service, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, shell: service.New(cfg.Service, service.Role{
		Name: report.Controllers, Component: "kube-controller-manager", Unready: "the controllers are not connected yet",
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

// controller is one of the controllers. Run may be called once per term of leadership.
type controller interface {
	Run(ctx context.Context) error
}

// signers returns the controllers that sign certificates: none without an authority.
func (s *Service) signers(cfg control.Config) ([]controller, error) {
	if s.cfg.SigningCertFile == "" {
		s.cfg.Service.Logger.Warn("certificate requests will not be signed because no authority is set: " +
			"nodes cannot join with a bootstrap token (set --cluster-signing-cert-file and --cluster-signing-key-file)")
		return nil, nil
	}
	authority, err := csrsigner.NewAuthority(s.cfg.SigningCertFile, s.cfg.SigningKeyFile, s.cfg.Service.Logger)
	if err != nil {
		return nil, err
	}
	signer, err := csrsigner.New(cfg, authority, s.cfg.SigningDuration)
	return []controller{signer}, err
}

// entry is a constructor of a controller and the controller's name in Kubernetes.
type entry struct {
	name  string
	build func() (controller, error)
}

// table lists the controllers that always run. It constructs none of them.
func (s *Service) table(cfg control.Config, source informer.Source) []entry {
	return []entry{
		{"deployment-controller", func() (controller, error) { return deployment.New(cfg) }},
		{"replicaset-controller", func() (controller, error) { return replicaset.New(cfg) }},
		{"namespace-controller", func() (controller, error) { return namespace.New(cfg, s.definitions) }},
		{"serviceaccount-controller", func() (controller, error) { return serviceaccount.New(cfg) }},
		{"root-ca-certificate-publisher-controller", func() (controller, error) { return rootca.New(cfg, s.cfg.RootCA) }},
		{"node-lifecycle-controller", func() (controller, error) { return nodelifecycle.New(cfg, s.cfg.NodeGrace) }},
		{"resourcequota-controller", func() (controller, error) { return resourcequota.New(cfg, source) }},
		{"disruption-controller", func() (controller, error) { return disruption.New(cfg) }},
		{"clusterrole-aggregation-controller", func() (controller, error) { return clusterroleaggregation.New(cfg) }},
		{"token-cleaner-controller", func() (controller, error) { return tokencleaner.New(cfg) }},
		{"bootstrap-signer-controller", func() (controller, error) { return bootstrapsigner.New(cfg) }},
		{"certificatesigningrequest-approving-controller", func() (controller, error) { return csrapprover.New(cfg) }},
		{"certificatesigningrequest-cleaner-controller", func() (controller, error) { return csrcleaner.New(cfg) }},
		{"service-cidr-controller", func() (controller, error) { return servicecidrs.New(cfg) }},
		{"storage-version-migrator-controller", func() (controller, error) { return storageversionmigrator.New(cfg) }},
	}
}

// Names returns the Kubernetes names of the controllers that a replica runs. The certificate signer
// is included, though it runs only if an authority is configured.
func Names() []string {
	names := []string{"garbage-collector-controller", "certificatesigningrequest-signing-controller"}
	for _, entry := range new(Service).table(control.Config{}, nil) {
		names = append(names, entry.name)
	}
	return names
}

// build creates the controllers and the informers that they need.
func (s *Service) build(context.Context) error {
	s.informers = s.shell.NewInformers()
	cfg := control.Config{
		Client: reconcile.Recording(s.shell.Client()), Informers: s.informers,
		Logger: s.cfg.Service.Logger, Registerer: s.cfg.Service.Registerer, Trace: s.cfg.Service.Trace,
	}
	s.definitions = customresources.New(cfg)
	var err error
	if s.collector, err = garbage.New(cfg, s.definitions, s.shell.Source()); err != nil {
		return err
	}
	signers, err := s.signers(cfg)
	if err != nil {
		return err
	}
	s.controllers = append([]controller{s.collector}, signers...)
	for _, entry := range s.table(cfg, s.shell.Source()) {
		c, err := entry.build()
		if err != nil {
			return err
		}
		s.controllers = append(s.controllers, c)
	}
	s.shell.Follow(s.informers)
	return nil
}

func (s *Service) follow(ctx context.Context) error {
	return control.RunAll(ctx, s.informers.Run, s.definitions.Follow, s.collector.Follow)
}

// lead runs the controllers while this replica holds the Lease.
func (s *Service) lead(ctx context.Context) error {
	return s.shell.Lead(ctx, leaseName, s.cfg.Election, s.informers, func(ctx context.Context) error {
		runs := make([]func(context.Context) error, len(s.controllers))
		for i, c := range s.controllers {
			runs[i] = c.Run
		}
		return control.RunAll(ctx, runs...)
	})
}
