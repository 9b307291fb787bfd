package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/readiness"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/shutdown"
	"github.com/garboard/garboard/libs/trace/propagate"
	"github.com/garboard/garboard/services/controllers/internal/bootstrapsigner"
	"github.com/garboard/garboard/services/controllers/internal/clusterroleaggregation"
	"github.com/garboard/garboard/services/controllers/internal/control"
	"github.com/garboard/garboard/services/controllers/internal/csrapprover"
	"github.com/garboard/garboard/services/controllers/internal/csrcleaner"
	"github.com/garboard/garboard/services/controllers/internal/csrsigner"
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
	"github.com/garboard/garboard/services/controllers/internal/tokencleaner"
)

// leaseNamespace and leaseName identify the Lease by which one replica leads. It is Kubernetes'
// own, so that a kube-controller-manager on the same cluster and this service never both act.
const (
	leaseNamespace = "kube-system"
	leaseName      = "kube-controller-manager"
)

// Service is one replica of the controllers.
type Service struct {
	cfg       Config
	informers atomic.Pointer[informer.Factory]
	conn      atomic.Pointer[bus.Conn]
}

// New checks the configuration and returns a replica. It opens no connection and reads no file.
func New(cfg Config) (*Service, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Service{cfg: cfg}, nil
}

// Run follows the API and, while this replica leads, runs the controllers until ctx ends. It
// returns when everything that it started has ended.
func (s *Service) Run(ctx context.Context) error {
	if err := s.cfg.load(); err != nil {
		return fmt.Errorf("starting the controllers: %w", err)
	}
	table := scheme.New()
	// Until NATS is up, the informers follow everything over HTTP.
	conn, err := bus.Dial(client.BusConfig(s.cfg.API, s.cfg.Bus))
	if err != nil {
		return fmt.Errorf("starting the controllers: %w", err)
	}
	var steps *shutdown.Steps
	defer func() {
		conn.Close()
		if steps != nil {
			steps.Done("the connections are closed")
		}
	}()
	s.conn.Store(conn)
	api, end, err := client.Connect(context.WithoutCancel(ctx), client.As(s.cfg.API, "kube-controller-manager"), table, s.cfg.Transport, conn, s.cfg.Logger)
	if err != nil {
		return fmt.Errorf("starting the controllers: %w", err)
	}
	defer end()
	source := fabricsource.New(fabricsource.Config{
		Conn: conn, Table: table, Client: api, Logger: s.cfg.Logger, Registerer: s.cfg.Registerer,
	})
	// The connections stay open until the Lease is released.
	defer func() { steps = shutdown.NewSteps(s.cfg.Logger) }()
	return control.RunAll(ctx,
		func(ctx context.Context) error { return s.run(ctx, api, source) },
		func(ctx context.Context) error { return report.Serve(ctx, conn, s.self()) },
		func(ctx context.Context) error { return propagate.Listen(ctx, conn, s.cfg.Trace) })
}

// self describes this replica to the status reports.
func (s *Service) self() report.Self {
	return report.Self{
		Service: report.Controllers, Replica: s.cfg.Identity, Version: s.cfg.Version, Ready: s.Ready, Watchers: s.Watchers, Logger: s.cfg.Logger,
		Certificates: func() []report.Certificate {
			return report.CertificatesIn(report.APIClient, s.cfg.API.CertData, s.cfg.API.CertFile)
		},
	}
}

// Ready returns nil once this replica could take over: its informers hold whole views, for which
// Ready waits until ctx ends. Otherwise the error says why not, and what it waits for.
func (s *Service) Ready(ctx context.Context) error {
	var causes readiness.Causes
	if s.cfg.Transport != client.TransportNATS {
		causes.API = func(ctx context.Context) error { return client.Answers(ctx, s.cfg.API) }
	}
	if conn := s.conn.Load(); conn != nil {
		causes.NATS = conn.Lost
	}
	factory := s.informers.Load()
	if factory == nil {
		return errors.New("the controllers are not connected yet")
	}
	return readiness.Check(ctx, factory, causes)
}

// Watchers returns what this replica follows, and how far it and its handlers lag behind; nil
// before Run.
func (s *Service) Watchers() []watcher.Status {
	factory := s.informers.Load()
	if factory == nil {
		return nil
	}
	return factory.Watchers()
}

// controller is one of the controllers. Run may be called once per term of leadership.
type controller interface {
	Run(ctx context.Context) error
}

// signers returns the controllers that sign certificates: none without an authority.
func (s *Service) signers(cfg control.Config) ([]controller, error) {
	if s.cfg.SigningCertFile == "" {
		s.cfg.Logger.Warn("certificate requests will not be signed because no authority is set: " +
			"nodes cannot join with a bootstrap token (set --cluster-signing-cert-file and --cluster-signing-key-file)")
		return nil, nil
	}
	authority, err := csrsigner.NewAuthority(s.cfg.SigningCertFile, s.cfg.SigningKeyFile, s.cfg.Logger)
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
		{"namespace-controller", func() (controller, error) { return namespace.New(cfg) }},
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

func (s *Service) run(ctx context.Context, api client.Interface, source informer.Source) error {
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: source, Table: api.Table(), Logger: s.cfg.Logger, Registerer: s.cfg.Registerer,
		Trace: s.cfg.Trace, Service: "controllers",
	})
	cfg := control.Config{
		Client: reconcile.Recording(api), Informers: factory, Logger: s.cfg.Logger, Registerer: s.cfg.Registerer, Trace: s.cfg.Trace,
	}
	collector, err := garbage.New(cfg, source)
	if err != nil {
		return fmt.Errorf("starting the controllers: %w", err)
	}
	signers, err := s.signers(cfg)
	if err != nil {
		return fmt.Errorf("starting the controllers: %w", err)
	}
	controllers := append([]controller{collector}, signers...)
	for _, entry := range s.table(cfg, source) {
		c, err := entry.build()
		if err != nil {
			return fmt.Errorf("starting the controllers: %w", err)
		}
		controllers = append(controllers, c)
	}
	s.informers.Store(factory)
	return shutdown.Run(ctx, s.cfg.Logger, shutdown.Stage{Ended: "the controllers have ended, and the lease is given up", Run: func(ctx context.Context) error {
		return election.Run(ctx, election.Config{
			Client: api, Namespace: leaseNamespace, Name: leaseName, Identity: s.cfg.Identity, Timing: s.cfg.Election,
			Logger: s.cfg.Logger, Registerer: s.cfg.Registerer, CatchUp: factory.WaitForRevision,
		}, func(ctx context.Context) error {
			runs := make([]func(context.Context) error, len(controllers))
			for i, c := range controllers {
				runs[i] = c.Run
			}
			return control.RunAll(ctx, runs...)
		})
	}}, shutdown.Stage{Ended: "the informers have ended", Run: func(ctx context.Context) error {
		return control.RunAll(ctx, factory.Run, collector.Follow)
	}})
}
