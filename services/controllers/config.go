package controllers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/controllers/internal/csrsigner"
	"github.com/garboard/garboard/services/controllers/internal/nodelifecycle"
)

// DefaultSigningDuration is the validity of signed certificates when Config sets none.
const DefaultSigningDuration = csrsigner.DefaultDuration

// Config configures one replica of the controllers.
type Config struct {
	// API is how to reach the apiserver; required.
	API *rest.Config
	// Bus is how to reach NATS; required.
	Bus bus.Config
	// Transport is what carries calls to the apiserver; HTTPS if empty.
	Transport client.Transport
	// RootCA is the PEM certificate that is published to every namespace; API's if empty.
	RootCA []byte
	// Identity names this replica in the election; the host name and a random suffix if empty.
	Identity string
	// SigningCertFile and SigningKeyFile are PEM files of the authority that signs approved
	// CertificateSigningRequests. They are read again when they change; without them no request is
	// signed.
	SigningCertFile, SigningKeyFile string
	// SigningDuration is the longest validity of a signed certificate; DefaultSigningDuration when
	// 0.
	SigningDuration time.Duration
	// NodeGrace is how long a node may be silent before it counts as lost; 50 s when 0.
	NodeGrace time.Duration
	// Version is the program's version, which it reports about itself.
	Version string
	// Election sets how fast another replica takes over from one that is gone. Unset fields take
	// Kubernetes' defaults.
	Election election.Timing
	// Logger receives the log; slog's default when nil.
	Logger *slog.Logger
	// Registerer receives the metrics; they are discarded when nil.
	Registerer prometheus.Registerer
	// Trace records the hops of changes; may be nil.
	Trace *trace.Recorder
}

// complete fills in defaults and reports all faults at once. It does no I/O; see load.
func (c *Config) complete() error {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.NodeGrace == 0 {
		c.NodeGrace = nodelifecycle.DefaultGrace
	}
	if c.SigningDuration == 0 {
		c.SigningDuration = DefaultSigningDuration
	}
	var faults []error
	if c.API == nil || c.API.Host == "" {
		faults = append(faults, errors.New("no apiserver address is set"))
	} else if len(c.RootCA) == 0 {
		// A certificate in a file is read by load.
		if c.RootCA = c.API.CAData; len(c.RootCA) == 0 && c.API.CAFile == "" {
			faults = append(faults, errors.New("no certificate of the apiserver's authority is set to publish to namespaces"))
		}
	}
	if len(c.Bus.URLs) == 0 && c.Bus.InProcess == nil {
		faults = append(faults, errors.New("no NATS server address is set"))
	}
	if err := c.Bus.CheckServers(); err != nil {
		faults = append(faults, err)
	}
	if err := c.Transport.Check(); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.Election.Complete(); err != nil {
		faults = append(faults, err)
	}
	if (c.SigningCertFile == "") != (c.SigningKeyFile == "") {
		faults = append(faults, errors.New("--cluster-signing-cert-file and --cluster-signing-key-file must be set together"))
	}
	if c.SigningDuration < csrsigner.MinDuration {
		faults = append(faults, fmt.Errorf("--cluster-signing-duration is %v, must be at least %v", c.SigningDuration, csrsigner.MinDuration))
	}
	if c.NodeGrace < time.Second {
		faults = append(faults, fmt.Errorf("the node grace period is %v, must be at least one second", c.NodeGrace))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring the controllers: %w", err)
	}
	return nil
}

// load reads what is not configured from the machine: the host name for Identity, and the
// authority's certificate.
func (c *Config) load() error {
	if c.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("reading the host name for the election: %w", err)
		}
		c.Identity = host + "_" + rand.Text()
	}
	if len(c.RootCA) > 0 {
		return nil
	}
	ca, err := os.ReadFile(c.API.CAFile)
	if err != nil {
		return fmt.Errorf("reading the certificate of the apiserver's authority: %w", err)
	}
	c.RootCA = ca
	return nil
}
