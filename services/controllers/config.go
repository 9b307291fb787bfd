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

// DefaultSigningDuration is how long signed certificates are good when Config does not say.
const DefaultSigningDuration = csrsigner.DefaultDuration

// Config is what the controllers need to know.
type Config struct {
	// API tells how to reach the apiserver; required.
	API *rest.Config
	// Bus tells how to reach NATS; required.
	Bus bus.Config
	// Transport says what carries calls to the apiserver; HTTPS if empty.
	Transport client.Transport
	// RootCA is the certificate in PEM that is published to every namespace; that of API when
	// empty.
	RootCA []byte
	// Identity names this replica in the election; the host's name and a random part when
	// empty.
	Identity string
	// SigningCertFile and SigningKeyFile are PEM files of the authority that signs approved
	// CertificateSigningRequests, read again when they change; without them none is signed.
	SigningCertFile, SigningKeyFile string
	// SigningDuration is how long the certificates are good at most; DefaultSigningDuration when 0.
	SigningDuration time.Duration
	// NodeGrace is how long a node may be silent before it counts as lost; 50 s when 0.
	NodeGrace time.Duration
	// Version is that of the program, which it tells of itself.
	Version string
	// Election says how fast another replica follows one that is gone; Kubernetes' defaults where
	// it is not set.
	Election election.Timing
	// Logger takes the log; slog's default when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; they are not kept when nil.
	Registerer prometheus.Registerer
	// Trace takes the hops of changes; may be nil.
	Trace *trace.Recorder
}

// complete fills in what is not set, and reports every fault at once. It reads and writes nothing;
// see load.
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
			faults = append(faults, errors.New("no certificate of the apiserver's authority is set, so that there is none to publish to namespaces"))
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
		faults = append(faults, errors.New("the authority that signs certificates needs both its certificate and its key (--cluster-signing-cert-file, --cluster-signing-key-file)"))
	}
	if c.SigningDuration < csrsigner.MinDuration {
		faults = append(faults, fmt.Errorf("certificates cannot be signed for %v: --cluster-signing-duration must be %v or more", c.SigningDuration, csrsigner.MinDuration))
	}
	if c.NodeGrace < time.Second {
		faults = append(faults, fmt.Errorf("the grace of nodes is %v, and must be at least one second", c.NodeGrace))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring the controllers: %w", err)
	}
	return nil
}

// load reads from the machine what is not set: this replica's name and the authority's certificate.
func (c *Config) load() error {
	if c.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("finding the host's name for the election: %w", err)
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
