// Package flags declares the flags that several commands share, so that they are called the
// same and say the same everywhere.
package flags

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/trace"
)

// tracedHops is how many hops a process remembers.
const tracedHops = 20_000

// Service is what every service is told.
type Service struct {
	name       string
	bus        bus.Config
	kubeconfig string
	health     string
	metrics    *prometheus.Registry
	hops       *trace.Recorder
}

// NewService makes the shared settings of a service that is called name.
func NewService(name string) *Service {
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Service{name: name, metrics: metrics, hops: trace.NewRecorder(tracedHops)}
}

// Bus declares how NATS is reached.
func (s *Service) Bus(flags *pflag.FlagSet) {
	flags.StringSliceVar(&s.bus.URLs, "nats-servers", []string{"nats://127.0.0.1:4222"}, "NATS servers; any of them will do")
	flags.StringVar(&s.bus.User, "nats-user", "", "user at NATS")
	flags.StringVar(&s.bus.Password, "nats-password", "", "password at NATS; better set by GARBOARD_NATS_PASSWORD")
	flags.StringVar(&s.bus.CAFile, "nats-ca-file", "", "PEM file of the authority that NATS is certified by")
	flags.StringVar(&s.bus.CertFile, "nats-cert-file", "", "PEM file of the client certificate for NATS")
	flags.StringVar(&s.bus.KeyFile, "nats-key-file", "", "PEM file of that certificate's key")
}

// API declares how the apiserver is reached, and where this service's health is asked.
func (s *Service) API(flags *pflag.FlagSet, health string) {
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig file; as kubectl finds it when empty")
	flags.StringVar(&s.health, "health-address", health, "HOST:PORT of /livez, /readyz and /metrics")
}

// BusConfig is how NATS is reached.
func (s *Service) BusConfig(log *slog.Logger) bus.Config {
	config := s.bus
	config.Name, config.Logger, config.Registerer = s.name, log, s.metrics
	return config
}

// APIConfig is how the apiserver is reached.
func (s *Service) APIConfig() (*rest.Config, error) { return client.LoadConfig(s.kubeconfig) }

// Metrics is the registry that /metrics shows.
func (s *Service) Metrics() *prometheus.Registry { return s.metrics }

// Trace is where the service's hops go.
func (s *Service) Trace() *trace.Recorder { return s.hops }

// Run runs the service with its health server until ctx ends. Check says why the service is not
// ready; it may be nil.
func (s *Service) Run(ctx context.Context, log *slog.Logger, run, check func(ctx context.Context) error) error {
	health := &daemon.Health{Address: s.health, Gatherer: s.metrics, Check: check}
	parts := []daemon.Part{{Name: "health", Run: health.Run}, {Name: s.name, Run: run}}
	if err := daemon.RunParts(ctx, log, parts, nil); err != nil {
		return fmt.Errorf("running the %s: %w", s.name, err)
	}
	return nil
}
