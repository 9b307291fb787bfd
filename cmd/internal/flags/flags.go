// Package flags declares the flags that several commands share, so that they have the same names
// and help everywhere.
package flags

import (
	"context"
	"log/slog"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/libs/trace"
)

// BusGroup is the heading of the flags for the connection to NATS.
const BusGroup = "NATS"

// tracedHops is the number of hops that a process remembers.
const tracedHops = 20_000

// Service holds the settings that every service has.
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
	end        func() // stops what APIConfig has started; may be nil
}

// NewService returns the shared settings of the service called name.
func NewService(name, version string) *Service {
	return &Service{name: name, version: version, metrics: metric.OfProcess(version), hops: trace.NewRecorder(tracedHops)}
}

// Bus declares the flags for the connection to NATS and for tracing.
func (s *Service) Bus(flags *pflag.FlagSet) {
	daemon.Group(flags, BusGroup, s.busFlags)
	daemon.Group(flags, "Tracing", s.tracing.flags)
}

func (s *Service) busFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.bus.URLs, "nats-servers", []string{"nats://127.0.0.1:4222"}, "URLs of the NATS servers; the client connects to any one of them")
	flags.BoolVar(&s.bus.Insecure, "nats-insecure", false,
		"allow NATS servers on other machines without TLS; tokens and Secrets can then be read in transit")
	flags.StringVar(&s.bus.User, "nats-user", "", "NATS user name")
	flags.StringVar(&s.bus.Password, "nats-password", "", "NATS password; preferably set by GARBOARD_NATS_PASSWORD")
	daemon.Secret(flags, "nats-password")
	flags.StringVar(&s.bus.CAFile, "nats-ca-file", "", "PEM file of the CA of the NATS servers")
	flags.StringVar(&s.bus.CertFile, "nats-cert-file", "", "PEM file of the client certificate for NATS")
	flags.StringVar(&s.bus.KeyFile, "nats-key-file", "", "PEM file of that certificate's key")
}

// API declares the flags for the connection to the apiserver, with by as the default transport, and
// for the address of this service's health endpoints.
func (s *Service) API(flags *pflag.FlagSet, by client.Transport, health string) {
	daemon.Group(flags, "API", func(flags *pflag.FlagSet) { s.apiFlags(flags, by) })
	daemon.Group(flags, "Health", func(flags *pflag.FlagSet) {
		flags.StringVar(&s.health, "health-address", health, "HOST:PORT of /livez, /readyz, /metrics and "+watcher.Path)
	})
}

func (s *Service) apiFlags(flags *pflag.FlagSet, by client.Transport) {
	flags.StringVar((*string)(&s.transport), "api-transport", string(by),
		"transport of calls to the apiserver: http; nats, which needs no other connection, but a bearer token or a certificate that NATS asks for; or auto (nats, and http while NATS is unavailable)")
	daemon.Renamed(flags, "api-carrier", "api-transport")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig file; when empty, the one that kubectl uses")
	flags.StringSliceVar(&s.apiservers, "apiservers", nil, "https URLs of the apiservers, in place of the one in the kubeconfig; when one fails, another is used")
}

// Probe returns where the service reports whether it is ready.
func (s *Service) Probe() daemon.Probe { return daemon.Probe{Address: s.health} }

// Gatherer returns the process's metrics.
func (s *Service) Gatherer() prometheus.Gatherer { return s.metrics }

// BusConfig returns the configuration of the connection to NATS.
func (s *Service) BusConfig(log *slog.Logger) bus.Config {
	config := s.bus
	config.Name, config.Logger, config.Registerer = s.name, log, s.metrics
	return config
}

// Config returns what all services have, without the connection to the apiserver; see APIConfig.
func (s *Service) Config(log *slog.Logger) service.Config {
	return service.Config{
		Bus: s.BusConfig(log), Transport: s.transport, Version: s.version, Logger: log, Registerer: s.metrics, Trace: s.hops,
	}
}

// APIConfig returns the configuration of the connection to the apiserver. With several apiservers
// it uses any that works; Run ends the checks of which ones do.
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

// APIServers returns the apiservers' URLs, for a service that selects among them itself.
func (s *Service) APIServers() []string { return s.apiservers }

// showCertificates adds the expiry of the service's own certificates to the metrics.
func (s *Service) showCertificates(api *rest.Config) {
	kubeconfig := s.kubeconfig
	if kubeconfig == "" {
		kubeconfig = "kubeconfig"
	}
	pem := slices.Concat(api.CAData, []byte("\n"), api.CertData)
	metric.Register(s.metrics, metric.Certificates(map[string][]byte{kubeconfig: pem}, api.CAFile, api.CertFile, s.bus.CAFile, s.bus.CertFile))
}

// Metrics returns the registry that /metrics exposes.
func (s *Service) Metrics() *prometheus.Registry { return s.metrics }

// Trace returns the recorder of the service's hops.
func (s *Service) Trace() *trace.Recorder { return s.hops }

// Run runs the service with its health server until ctx ends.
func (s *Service) Run(ctx context.Context, log *slog.Logger, runner service.Runner, before ...lifecycle.Stage) error {
	if s.end != nil {
		defer s.end()
	}
	stages := append([]lifecycle.Stage{s.Tracing(log)}, before...)
	return lifecycle.Run(ctx, log, append(stages,
		service.Health(s.health, s.metrics, runner),
		lifecycle.Stage{Name: s.name, Run: runner.Run},
	)...)
}
