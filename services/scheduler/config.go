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

// Config is what a scheduler needs to know.
type Config struct {
	// API tells how to reach the apiserver; required.
	API *rest.Config
	// Bus tells how to reach NATS; required.
	Bus bus.Config
	// Transport says what carries calls to the apiserver; HTTPS if empty.
	Transport client.Transport
	// Identity tells the replicas apart in the election; the host's name with a random part
	// when empty.
	Identity string
	// SchedulerName is the spec.schedulerName of the pods that are scheduled;
	// "default-scheduler" when empty.
	SchedulerName string
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

// identify names this replica after its host, unless it has a name.
func (c *Config) identify() error {
	if c.Identity != "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding a name for the election: %w", err)
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

// validate reports every fault of the configuration at once. It reads and writes nothing.
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
