package service

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace/propagate"
)

// Role is what a service is.
type Role struct {
	// Name is the service's name in reports, such as report.Scheduler.
	Name string
	// Component is the name of the Kubernetes component whose place the service takes, which its
	// calls carry in their User-Agent header.
	Component string
	// WithoutManagers means that the informers keep no metadata.managedFields, which the service reads nowhere. An
	// object that is written without them keeps those that the API has.
	WithoutManagers bool
	// Unready is the reason that Ready returns before Follow is called.
	Unready string
	// Explain returns a better reason than err for which the apiserver does not answer, or err; may
	// be nil.
	Explain func(ctx context.Context, err error) error
}

// Shell is what surrounds the work of a service. Its methods other than Ready, Watchers and Reach
// are for stages that follow Connections.
type Shell struct {
	role Role

	mu       sync.Mutex
	cfg      Config
	certFile string
	conn     *bus.Conn // nil if the service uses other connections
	api      client.Interface
	source   informer.Source
	end      func()
	followed Informers
}

// New returns the shell of a service with a complete configuration. It does no I/O.
func New(cfg Config, role Role) *Shell { return &Shell{cfg: cfg, role: role, end: func() {}} }

// Reach sets how to reach the apiserver and NATS in place of the configuration. certFile holds the
// certificate that the service presents, if api does not name it. Call it before Connections
// starts.
func (s *Shell) Reach(api *rest.Config, nats bus.Config, certFile string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.API, s.cfg.Bus, s.certFile = api, nats, certFile
}

// Use has the service work on an existing client and source, so that it connects to nothing and
// reports nothing. Call it before Connections starts.
func (s *Shell) Use(api client.Interface, source informer.Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.api, s.source = api, source
}

// Connections returns the stage that connects to the apiserver and NATS. It does not wait for
// either: until NATS answers, informers follow everything over HTTP.
func (s *Shell) Connections() lifecycle.Stage {
	return lifecycle.Stage{Name: "connections", Start: s.connect, End: func(context.Context) error {
		s.end()
		return nil
	}}
}

func (s *Shell) connect(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.cfg.identify(); err != nil {
		return err
	}
	if s.api != nil {
		return nil
	}
	table, config := scheme.New(), client.As(s.cfg.API, s.role.Component)
	nats := client.BusConfig(s.cfg.API, s.cfg.Bus)
	conn, err := bus.Dial(nats)
	if err != nil {
		return err
	}
	certified := client.Certified(s.cfg.API, nats)
	if s.certFile != "" { // which API's transport presents
		certified = client.Certified(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CertFile: s.certFile}}, nats)
	}
	route := client.Route{By: s.cfg.Transport, Conn: conn, Certified: certified, ReadPause: s.cfg.CallPause}
	api, end, err := client.Connect(context.WithoutCancel(ctx), config, table, route, s.cfg.Logger)
	if err != nil {
		conn.Close()
		return err
	}
	s.conn, s.api, s.end = conn, api, func() { end(); conn.Close() }
	s.source = fabricsource.New(fabricsource.Config{
		Conn: conn, Table: api.Table(), Client: api, WithoutManagers: s.role.WithoutManagers,
		Logger: s.cfg.Logger, Registerer: s.cfg.Registerer,
	})
	return nil
}

// Reports returns the stage that answers apiservers' requests for reports, and that learns of
// traces.
func (s *Shell) Reports() lifecycle.Stage {
	return lifecycle.Stage{Name: "reports", Run: func(ctx context.Context) error {
		conn := s.Conn()
		if conn == nil {
			<-ctx.Done()
			return nil
		}
		group, ctx := errgroup.WithContext(ctx)
		group.Go(func() error { return report.Serve(ctx, conn, s.self()) })
		group.Go(func() error { return propagate.Listen(ctx, conn, s.cfg.Trace) })
		return group.Wait()
	}}
}

// self describes the service to the apiservers.
func (s *Shell) self() report.Self {
	s.mu.Lock()
	cfg, file := s.cfg, cmp.Or(s.certFile, s.cfg.API.CertFile)
	s.mu.Unlock()
	return report.Self{
		Service: s.role.Name, Replica: cfg.Identity, Version: cfg.Version, Ready: s.Ready, Watchers: s.Watchers, Logger: cfg.Logger,
		Certificates: func() []report.Certificate {
			return report.CertificatesIn(report.APIClient, cfg.API.CertData, file)
		},
	}
}

func (s *Shell) config() Config {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cfg
}

// Client returns the client of the API.
func (s *Shell) Client() client.Interface {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.api
}

// Source returns the source of informers.
func (s *Shell) Source() informer.Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source
}

// Conn returns the connection to NATS.
func (s *Shell) Conn() *bus.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conn
}

// NewInformers returns a factory of the service's informers.
func (s *Shell) NewInformers() *informer.Factory { return s.NewInformersOf(s.Source()) }

// NewInformersOf is NewInformers of informers that follow their views by a source, which builds on Source.
func (s *Shell) NewInformersOf(source informer.Source) *informer.Factory {
	cfg := s.config()
	factory := informer.FactoryConfig{
		Source: source, Table: s.Client().Table(), Service: s.role.Name,
		Logger: cfg.Logger, Registerer: cfg.Registerer, Trace: cfg.Trace,
	}
	if s.role.WithoutManagers {
		factory.Transform = withoutManagers
	}
	return informer.NewFactory(factory)
}

func withoutManagers(object informer.Object) (informer.Object, error) {
	object.SetManagedFields(nil)
	return object, nil
}

// Follow sets the informers that Ready waits for and that Watchers describes.
func (s *Shell) Follow(informers Informers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followed = informers
}

// Lead calls lead each time the replica becomes the leader by a Lease in kube-system, as
// election.Run does, until ctx ends. It leads only once the informers contain what the previous
// leader wrote.
func (s *Shell) Lead(
	ctx context.Context, lease string, timing election.Timing, informers *informer.Factory, lead func(context.Context) error,
) error {
	cfg := s.config()
	return election.Run(ctx, election.Config{
		Client: s.Client(), Namespace: metav1.NamespaceSystem, Name: lease, Identity: cfg.Identity, Timing: timing,
		Logger: cfg.Logger, Registerer: cfg.Registerer, CatchUp: informers.WaitForRevision,
	}, lead)
}

// Ready returns nil once the informers that the service follows hold whole views, for which it
// waits until ctx ends. Otherwise the error says what the service waits for, and why.
func (s *Shell) Ready(ctx context.Context) error {
	s.mu.Lock()
	cfg, conn, followed := s.cfg, s.conn, s.followed
	s.mu.Unlock()
	if followed == nil {
		return errors.New(s.role.Unready)
	}
	var why causes
	if cfg.Transport != client.TransportNATS {
		why.api = func(ctx context.Context) error {
			err := client.Answers(ctx, cfg.API)
			if err != nil && s.role.Explain != nil {
				err = s.role.Explain(ctx, err)
			}
			return err
		}
	}
	if conn != nil {
		why.nats = conn.Lost
	}
	return check(ctx, followed, why)
}

// Watchers returns what the service follows, and how far it and its handlers lag; nil before Follow
// is called.
func (s *Shell) Watchers() []watcher.Status {
	s.mu.Lock()
	followed := s.followed
	s.mu.Unlock()
	if followed == nil {
		return nil
	}
	return followed.Watchers()
}
