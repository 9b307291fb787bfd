package scheduler

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/trace"
)

// Config configures one replica of the scheduler.
type Config struct {
	// API is how to reach the apiserver; required.
	API *rest.Config
	// Bus is how to reach NATS; required.
	Bus bus.Config
	// Transport is what carries calls to the apiserver; HTTPS if empty.
	Transport client.Transport
	// Identity distinguishes the replicas in the election; the host name and a random suffix if
	// empty.
	Identity string
	// SchedulerName is the spec.schedulerName of the pods to schedule; "default-scheduler" when
	// empty.
	SchedulerName string
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

// identify names this replica after its host if it has no name yet.
func (c *Config) identify() error {
	if c.Identity != "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("reading the host name for the election: %w", err)
	}
	c.Identity = host + "_" + string(uuid.NewUUID())
	return nil
}

func (c *Config) setDefaults() {
	if c.SchedulerName == "" {
		c.SchedulerName = corev1.DefaultSchedulerName
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
}

// validate reports all faults of the configuration at once. It does no I/O.
func (c *Config) validate() error {
	var faults []error
	if c.API == nil || c.API.Host == "" {
		faults = append(faults, errors.New("no apiserver address is set"))
	}
	if problems := validation.IsDNS1123Subdomain(c.SchedulerName); len(problems) > 0 {
		faults = append(faults, fmt.Errorf("the scheduler name %q is not valid: %s", c.SchedulerName, strings.Join(problems, "; ")))
	}
	if err := c.Transport.Check(); err != nil {
		faults = append(faults, err)
	}
	if _, err := c.Election.Complete(); err != nil {
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring the scheduler: %w", err)
	}
	return nil
}
