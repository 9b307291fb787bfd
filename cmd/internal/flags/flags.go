// Package flags declares the flags that several commands share, so that they are called the
// same and say the same everywhere.
package flags

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/trace"
)

// BusGroup is the heading of the flags on how NATS is reached.
const BusGroup = "NATS"

// tracedHops is how many hops a process remembers.
const tracedHops = 20_000

// Service is what every service is told.
type Service struct {
	name       string
	version    string
	bus        bus.Config
	kubeconfig string
	apiservers []string
	transport  client.Transport
	health     string
	metrics    *prometheus.Registry
	hops       *trace.Recorder
	tracing    tracing
	end        func() // ends what APIConfig has started; nil for nothing
}

// NewService makes the shared settings of a service that is called name.
func NewService(name, version string) *Service {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metric.Build(metrics, version)
	return &Service{name: name, version: version, metrics: metrics, hops: trace.NewRecorder(tracedHops)}
}

// Bus declares how NATS is reached, and what is traced on the way.
func (s *Service) Bus(flags *pflag.FlagSet) {
	daemon.Group(flags, BusGroup, s.busFlags)
	daemon.Group(flags, "Tracing", s.tracing.flags)
}

func (s *Service) busFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.bus.URLs, "nats-servers", []string{"nats://127.0.0.1:4222"}, "NATS servers; any of them will do")
	flags.BoolVar(&s.bus.Insecure, "nats-insecure", false,
		"allow NATS servers of other machines without TLS; tokens and Secrets can then be read on the way")
	flags.StringVar(&s.bus.User, "nats-user", "", "user at NATS")
	flags.StringVar(&s.bus.Password, "nats-password", "", "password at NATS; better set by GARBOARD_NATS_PASSWORD")
	flags.StringVar(&s.bus.CAFile, "nats-ca-file", "", "PEM file of the authority that NATS is certified by")
	flags.StringVar(&s.bus.CertFile, "nats-cert-file", "", "PEM file of the client certificate for NATS")
	flags.StringVar(&s.bus.KeyFile, "nats-key-file", "", "PEM file of that certificate's key")
}

// API declares how the apiserver is reached, by what when that is not given, and where this
// service's health is asked.
func (s *Service) API(flags *pflag.FlagSet, by client.Transport, health string) {
	daemon.Group(flags, "API", func(flags *pflag.FlagSet) { s.apiFlags(flags, by) })
	daemon.Group(flags, "Health", func(flags *pflag.FlagSet) {
		flags.StringVar(&s.health, "health-address", health, "HOST:PORT of /livez, /readyz, /metrics and "+watcher.Path)
	})
}

func (s *Service) apiFlags(flags *pflag.FlagSet, by client.Transport) {
	flags.StringVar((*string)(&s.transport), "api-transport", string(by),
		"what carries calls to the apiserver: http; nats, which needs no other connection, but a bearer token; or auto (nats, and http while NATS is away)")
	daemon.Renamed(flags, "api-carrier", "api-transport")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig file; as kubectl finds it when empty")
	flags.StringSliceVar(&s.apiservers, "apiservers", nil, "https URLs of the apiservers, in place of the kubeconfig's one; when one fails another is used")
}

// Probe says where the service tells whether it is ready.
func (s *Service) Probe() daemon.Probe { return daemon.Probe{Address: s.health} }

// Transport is what carries calls to the apiserver.
func (s *Service) Transport() client.Transport { return s.transport }

// BusConfig is how NATS is reached.
func (s *Service) BusConfig(log *slog.Logger) bus.Config {
	config := s.bus
	config.Name, config.Logger, config.Registerer = s.name, log, s.metrics
	return config
}

// APIConfig is how the apiserver is reached; of several, whichever works. What asks them whether
// they do ends with Run.
func (s *Service) APIConfig(log *slog.Logger) (*rest.Config, error) {
	config, err := client.LoadConfig(s.kubeconfig)
	if err != nil {
		return nil, err
	}
	s.showCertificates(config)
	config = client.Measured(config, s.metrics)
	if len(s.apiservers) == 0 {
		return config, nil
	}
	config, s.end, err = client.Failover(config, s.apiservers, log)
	return config, err
}

// APIServers are the apiservers' URLs, for a service that finds its own way to them.
func (s *Service) APIServers() []string { return s.apiservers }

// showCertificates has the metrics show when the service's own certificates end.
func (s *Service) showCertificates(api *rest.Config) {
	kubeconfig := s.kubeconfig
	if kubeconfig == "" {
		kubeconfig = "kubeconfig"
	}
	pem := slices.Concat(api.CAData, []byte("\n"), api.CertData)
	metric.Register(s.metrics, metric.Certificates(map[string][]byte{kubeconfig: pem}, api.CAFile, api.CertFile, s.bus.CAFile, s.bus.CertFile))
}

// Metrics is the registry that /metrics shows.
func (s *Service) Metrics() *prometheus.Registry { return s.metrics }

// Trace is where the service's hops go.
func (s *Service) Trace() *trace.Recorder { return s.hops }

// Runner is the door of a service.
type Runner interface {
	// Run runs the service until ctx ends.
	Run(ctx context.Context) error
	// Ready says why the service is not ready; nil when it is.
	Ready(ctx context.Context) error
	// Watchers says what the service follows, and how far it is behind.
	Watchers() []watcher.Status
}

// Run runs the service with its health server until ctx ends.
func (s *Service) Run(ctx context.Context, log *slog.Logger, service Runner) error {
	if s.end != nil {
		defer s.end()
	}
	parts, err := s.Tracing(ctx, log)
	if err != nil {
		return err
	}
	parts = append(parts, daemon.Part{Name: "health", Run: s.diagnostics(service).Run}, daemon.Part{Name: s.name, Run: service.Run})
	if err := daemon.RunParts(ctx, log, parts, nil); err != nil {
		return fmt.Errorf("running the %s: %w", s.name, err)
	}
	return nil
}

// diagnostics is what the service shows of itself.
func (s *Service) diagnostics(service Runner) *daemon.Health {
	return &daemon.Health{
		Address: s.health, Gatherer: s.metrics, Check: service.Ready,
		Debug: map[string]http.Handler{watcher.Path: watcher.Serve(service.Watchers)},
	}
}
