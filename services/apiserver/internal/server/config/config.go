// Package config is the configuration of an apiserver: what it may be, its defaults, and what of it
// is wrong.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/http/logid"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// DefaultServiceCIDR is the default of Config.ServiceCIDR.
const DefaultServiceCIDR = "10.96.0.0/12"

// Config configures an apiserver.
type Config struct {
	// Serving configures how the API is served over HTTPS.
	Serving Serving
	// Limits bounds the requests.
	Limits Limits
	// Authentication configures how users are authenticated.
	Authentication Authentication
	// Audit configures the audit log.
	Audit Audit
	// Catalog, if not nil, receives the catalog of the built-in kinds before the server serves them.
	// It may change the catalog while the server runs.
	Catalog func(*kinds.Catalog)
	// Admission selects and configures the admission plugins.
	Admission Admission
	// Enablement turns features and API versions on or off.
	Enablement Enablement
	// Etcd configures the storage of the objects.
	Etcd Etcd
	// Bus configures the connection to NATS, and what is published there.
	Bus Bus
	// Window bounds the past changes that are kept in memory.
	Window Window
	// ServiceCIDR is the range of service addresses, or two of different address families separated
	// by a comma, the default one first; DefaultServiceCIDR if empty.
	ServiceCIDR string
	// DNSService has the Service kube-system/kube-dns created, at the tenth address of the first range of
	// service addresses. Node agents answer DNS questions there.
	DNSService bool
	// Hostname distinguishes this server from others, in the name of its Lease; the host's name if
	// empty.
	Hostname string
	// Version is the program's version, which the apiserver reports.
	Version string
	// Logger receives the log; slog.Default if nil.
	Logger *slog.Logger
	// Registerer registers the metrics; none are registered if nil.
	Registerer prometheus.Registerer
	// Gatherer is the source of /metrics; it is empty if nil.
	Gatherer prometheus.Gatherer
	// Flags returns the values of the process's flags by name, for /flagz; nil if it is not served.
	Flags func() map[string]string
	// Profiling serves Go's profiles at /debug/pprof/ to users with the right to that path.
	Profiling bool
	// Trace records the hops of requests, and is the source of /debug/garboard/trace; it may be
	// nil.
	Trace *trace.Recorder
	// Debug are further handlers for the process's own state, by path below /debug/garboard/, for
	// users with the right to that path.
	Debug map[string]http.Handler
}

// Complete sets defaults and returns everything that is wrong. It does no I/O; see Load.
func (c *Config) Complete() error {
	if c.ServiceCIDR == "" {
		c.ServiceCIDR = DefaultServiceCIDR
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = slog.New(logid.Handler(c.Logger.Handler()))
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Gatherer == nil {
		c.Gatherer = prometheus.NewRegistry()
	}
	if c.Bus.NATS.Registerer == nil {
		c.Bus.NATS.Registerer = c.Registerer
	}
	if c.Bus.NATS.Logger == nil {
		c.Bus.NATS.Logger = c.Logger
	}
	c.Limits.complete()
	_, badRanges := c.ServiceCIDRs()
	if err := errors.Join(
		c.Serving.complete(), c.Etcd.complete(), c.Bus.complete(), badRanges, c.Admission.complete(), c.Enablement.complete(),
		c.Authentication.complete(c.Logger), c.Audit.complete(), c.Window.complete(),
	); err != nil {
		return fmt.Errorf("configuring the apiserver: %w", err)
	}
	return nil
}

// Load reads the files that the configuration names, and gets from the machine what is not set.
func (c *Config) Load() error {
	if c.Hostname == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("reading the host name: %w", err)
		}
		c.Hostname = strings.ToLower(host)
	}
	return errors.Join(c.Admission.load(), c.Audit.load())
}
