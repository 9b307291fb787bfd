// Package config is the configuration of an apiserver: what it may be, its defaults, and what of it
// is wrong.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/http/filters"
	"github.com/garboard/garboard/services/apiserver/internal/http/logid"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Defaults of Config.
const (
	DefaultEtcdPrefix  = "/registry"
	DefaultServiceCIDR = "10.96.0.0/12"
	// DefaultEtcdCompactionInterval and DefaultEventTTL are Kubernetes' defaults.
	DefaultEtcdCompactionInterval = 5 * time.Minute
	DefaultEventTTL               = time.Hour
	DefaultBusLife                = busauth.DefaultLife
	DefaultRequestTimeout         = filters.DefaultTimeout
)

// minBusLife is the least value of Config.BusLife: NATS counts in seconds.
const minBusLife = time.Second

// Config configures an apiserver.
type Config struct {
	// Listen is the address to serve at, host:port. It is not used if Listener is set.
	Listen string
	// Listener is served in place of Listen; Run closes it.
	Listener net.Listener
	// CertDir is the directory of the certificate authority, the serving certificate, the key that
	// signs service account tokens, and the tokens of the services. Missing files are created at
	// the first start and kept.
	CertDir string
	// TLSCertFile and TLSKeyFile are PEM files of a serving certificate and its key from elsewhere,
	// read again when they change; set both or neither. With them CertDir is only read, and holds
	// what `garboard init` creates for an apiserver: no key of the authority, and no tokens unless
	// they are wanted.
	TLSCertFile, TLSKeyFile string
	// Hosts are further names and addresses by which clients reach the server, for the certificate
	// in CertDir.
	Hosts []string
	// Authentication configures how users are authenticated.
	Authentication Authentication
	// Audit configures the audit log.
	Audit Audit
	// MaxReads and MaxWrites bound the requests in flight, without long-running ones;
	// DefaultMaxReads and DefaultMaxWrites if 0, no bound if negative.
	MaxReads, MaxWrites int
	// NoShares lets one user use both bounds up, and reserves nothing for nodes and the plane's
	// own users. It is for measurements.
	NoShares bool
	// RequestTimeout bounds every request that is not long-running; DefaultRequestTimeout if 0, no
	// bound if negative, which is for measurements.
	RequestTimeout time.Duration
	// EnableAdmissionPlugins and DisableAdmissionPlugins name, as Kubernetes does, admission
	// plugins to run, or not to run, against the default.
	EnableAdmissionPlugins, DisableAdmissionPlugins []string
	// Catalog is the set of kinds to serve, which may change while the server runs; all built-in
	// kinds if nil. It belongs to this server alone.
	Catalog *kinds.Catalog
	// EtcdServers are etcd's client URLs; at least one.
	EtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile are PEM files for TLS to etcd; empty for none.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// EtcdServersOverrides are resources with an etcd cluster of their own, in kube-apiserver's
	// notation: GROUP/RESOURCE#SERVERS, where SERVERS are URLs separated by semicolons. The same
	// certificates are used for them.
	EtcdServersOverrides []string
	// EtcdCompactionInterval is for how long etcd keeps old revisions, so that clients can resume
	// their watches and continue their lists; 0 leaves the compaction of etcd to other programs.
	EtcdCompactionInterval time.Duration
	// EventTTL is how long events are kept; DefaultEventTTL if 0.
	EventTTL time.Duration
	// EtcdPrefix is the key prefix of all objects; DefaultEtcdPrefix if empty.
	EtcdPrefix string
	// ServiceCIDR is the range of service addresses, or two of different address families separated
	// by a comma, the default one first; DefaultServiceCIDR if empty.
	ServiceCIDR string
	// Bus is how to connect to NATS. The API is served while NATS is unreachable; watch messages
	// and logs wait for it. Unless Bus names a user, the apiserver authenticates with the key in
	// CertDir.
	Bus bus.Config
	// OpenBus accepts a NATS that does not have the apiservers authenticate its clients: any client
	// can then read everything and forge watch messages. Without OpenBus, a NATS that admits any
	// client is not used.
	OpenBus bool
	// BusLife bounds how long a client's connection to NATS lasts, and so how long a withdrawn
	// right remains usable there; DefaultBusLife if 0.
	BusLife time.Duration
	// Log bounds the watch messages that are kept.
	Log Log
	// Window bounds the past changes that are kept in memory.
	Window Window
	// Version is the program's version, which the apiserver reports.
	Version string
	// ShutdownDelay is for how long during shutdown requests are still accepted while readiness
	// fails, so that load balancers notice.
	ShutdownDelay time.Duration
	// ShutdownWatchGrace is the time over which the watches are then ended one by one, in random
	// order; all at once if 0.
	ShutdownWatchGrace time.Duration
	// AdvertiseAddress is the IP address by which pods reach this server, an endpoint of the
	// kubernetes Service. If empty, it is the address of Listen, or this machine's if that is
	// unspecified. A server that listens only on loopback has none.
	AdvertiseAddress string
	// Hostname distinguishes this server from others, in the name of its Lease; the host's name if
	// empty.
	Hostname string
	// Logger receives the log; slog.Default if nil.
	Logger *slog.Logger
	// Registerer registers the metrics; none are registered if nil.
	Registerer prometheus.Registerer
	// Gatherer is the source of /metrics; it is empty if nil.
	Gatherer prometheus.Gatherer
	// Profiling serves Go's profiles at /debug/pprof/ to users with the right to that path.
	Profiling bool
	// Trace records the hops of requests, and is the source of /debug/garboard/trace; it may be
	// nil.
	Trace *trace.Recorder
	// Debug are further handlers for the process's own state, by path below /debug/garboard/, for
	// users with the right to that path.
	Debug map[string]http.Handler
}

// ReadsKeys reports whether CertDir is filled by another program.
func (c Config) ReadsKeys() bool { return c.TLSCertFile != "" }

// Complete sets defaults and returns everything that is wrong. It does no I/O; see Load.
func (c *Config) Complete() error {
	var errs []error
	if c.Listener == nil {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			errs = append(errs, fmt.Errorf("the address to listen at, %q, is not HOST:PORT", c.Listen))
		}
	}
	if c.CertDir == "" {
		errs = append(errs, errors.New("no certificate directory is set"))
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		errs = append(errs, errors.New("--tls-cert-file and --tls-private-key-file must be set together"))
	}
	if len(c.EtcdServers) == 0 {
		errs = append(errs, errors.New("no etcd server is set"))
	}
	if len(c.Bus.URLs) == 0 && c.Bus.InProcess == nil {
		errs = append(errs, errors.New("no NATS server is set"))
	}
	if err := c.Bus.CheckServers(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.Overrides(); err != nil {
		errs = append(errs, err)
	}
	if c.ShutdownDelay < 0 || c.ShutdownWatchGrace < 0 {
		errs = append(errs, fmt.Errorf("the shutdown delay, %v, and the grace period of watches, %v, must not be negative",
			c.ShutdownDelay, c.ShutdownWatchGrace))
	}
	if _, err := c.Advertised(nil); err != nil {
		errs = append(errs, err)
	}
	if c.EtcdCompactionInterval < 0 {
		errs = append(errs, fmt.Errorf("the compaction interval of etcd, %v, must not be negative", c.EtcdCompactionInterval))
	}
	if c.EventTTL == 0 {
		c.EventTTL = DefaultEventTTL
	}
	if c.EventTTL < 0 {
		errs = append(errs, fmt.Errorf("the lifetime of events, %v, must not be negative", c.EventTTL))
	}
	if c.BusLife < 0 || c.BusLife > 0 && c.BusLife < minBusLife {
		errs = append(errs, fmt.Errorf("the lifetime of clients' connections to NATS, %v, must be at least %v", c.BusLife, minBusLife))
	}
	if c.EtcdPrefix == "" {
		c.EtcdPrefix = DefaultEtcdPrefix
	}
	if c.ServiceCIDR == "" {
		c.ServiceCIDR = DefaultServiceCIDR
	}
	if _, err := c.ServiceCIDRs(); err != nil {
		errs = append(errs, err)
	}
	if err := admission.CheckNames(c.EnableAdmissionPlugins, c.DisableAdmissionPlugins); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(c.Authentication.complete(), c.Audit.complete(), c.Log.complete(), c.Window.complete()); err != nil {
		errs = append(errs, err)
	}
	if c.MaxReads == 0 {
		c.MaxReads = DefaultMaxReads
	}
	if c.MaxWrites == 0 {
		c.MaxWrites = DefaultMaxWrites
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = DefaultRequestTimeout
	}
	c.completeProcess()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configuring the apiserver: %w", err)
	}
	return nil
}

// completeProcess sets defaults for what the apiserver shares with its process.
func (c *Config) completeProcess() {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = slog.New(logid.Handler(c.Logger.Handler()))
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Bus.Registerer == nil {
		c.Bus.Registerer = c.Registerer
	}
	if c.Bus.Logger == nil {
		c.Bus.Logger = c.Logger
	}
	if c.Gatherer == nil {
		c.Gatherer = prometheus.NewRegistry()
	}
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
	return c.Audit.load()
}
