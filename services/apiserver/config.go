// Package apiserver is the Kubernetes API over etcd. It is the only service that knows etcd:
// requests become transactions there, and what etcd reports becomes watches over HTTP and
// messages on the bus.
//
// It is stateless but for the certificates in Config.CertDir, and runs in any number of
// copies on one etcd.
package apiserver

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
	"github.com/garboard/garboard/libs/logid"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/http/filters"
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

// minBusLife is the least of Config.BusLife: NATS counts it in seconds.
const minBusLife = time.Second

// Config is what an apiserver needs to know.
type Config struct {
	// Listen is the address to serve at, host:port. It is not used when Listener is set.
	Listen string
	// Listener is served in place of Listen; Run closes it.
	Listener net.Listener
	// CertDir is the folder of the certificate authority, the serving certificate, the key
	// that signs service account tokens, and the tokens of the services. What is missing is
	// made at the first start and kept.
	CertDir string
	// TLSCertFile and TLSKeyFile are PEM files of a serving certificate and its key that others
	// made, read again when they change; both or none. With them CertDir is only read, and holds
	// what `garboard init` makes for an apiserver: no key of the authority, and no tokens unless
	// they are wanted.
	TLSCertFile, TLSKeyFile string
	// Hosts are further names and addresses by which clients reach the server, for the
	// certificate in CertDir.
	Hosts []string
	// Authentication says how users are found out.
	Authentication Authentication
	// Audit says what is written down of requests.
	Audit Audit
	// MaxReads and MaxWrites bound the requests in work at a time, watches and the like left
	// out; DefaultMaxReads and DefaultMaxWrites if 0, no bound if negative.
	MaxReads, MaxWrites int
	// NoShares lets one user have all of these, and reserves none for nodes and the plane's own
	// users. It is for measurements.
	NoShares bool
	// RequestTimeout bounds every request that is not long-running; DefaultRequestTimeout if 0,
	// no bound if negative, which is for measurements.
	RequestTimeout time.Duration
	// EnableAdmissionPlugins and DisableAdmissionPlugins name admission plugins, as Kubernetes
	// calls them, that are to run, or not to run, against the default.
	EnableAdmissionPlugins, DisableAdmissionPlugins []string
	// EtcdServers are etcd's client URLs; at least one.
	EtcdServers []string
	// EtcdCAFile, EtcdCertFile and EtcdKeyFile are PEM files for TLS to etcd; empty for none.
	EtcdCAFile, EtcdCertFile, EtcdKeyFile string
	// EtcdServersOverrides are resources with an etcd cluster of their own, each in
	// kube-apiserver's notation: GROUP/RESOURCE#SERVERS, the servers being URLs with semicolons
	// between them. They are reached with the same certificates.
	EtcdServersOverrides []string
	// EtcdCompactionInterval is for how long etcd keeps what is no more, so that clients can
	// resume their watches and continue their lists; 0 leaves the compaction of etcd to others.
	EtcdCompactionInterval time.Duration
	// EventTTL is how long events are kept; DefaultEventTTL if 0.
	EventTTL time.Duration
	// EtcdPrefix is the key below which all objects are; DefaultEtcdPrefix if empty.
	EtcdPrefix string
	// ServiceCIDR is the range of service addresses, or two of them of different address families
	// with a comma between, the default one first; DefaultServiceCIDR if empty.
	ServiceCIDR string
	// Bus says where NATS is. The API is served while NATS is away; watch messages and logs
	// wait for it. Unless it names a user, the apiserver shows the key in CertDir.
	Bus bus.Config
	// OpenBus says that NATS does not ask the apiservers who its clients are: whoever reaches
	// it may then read everything and forge watch messages. Else a NATS that lets everybody in
	// is not used.
	OpenBus bool
	// BusLife is how long a client's connection to NATS lasts at most, and with it a right
	// that was withdrawn; DefaultBusLife if 0.
	BusLife time.Duration
	// Log says how much is kept of the watch messages.
	Log LogConfig
	// Window says how much of the past is remembered.
	Window WindowConfig
	// Version is that of the program, which the apiserver tells of itself.
	Version string
	// ShutdownDelay is for how long at the end requests are still taken while readiness says no,
	// for those who choose between servers to learn of it.
	ShutdownDelay time.Duration
	// ShutdownWatchGrace is over how long the watches are ended then, one after the other in any
	// order; all at once if 0.
	ShutdownWatchGrace time.Duration
	// AdvertiseAddress is the IP address by which pods reach this server, which the kubernetes
	// Service has as an endpoint; that of Listen if empty, this machine's if that is any. One that
	// listens to its own machine alone has none.
	AdvertiseAddress string
	// Hostname tells this server from others, in the name of its Lease; the host's if empty.
	Hostname string
	// Logger takes the log; slog.Default if nil.
	Logger *slog.Logger
	// Registerer gets the metrics; none if nil.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics shows; nothing if nil.
	Gatherer prometheus.Gatherer
	// Profiling serves Go's profiles at /debug/pprof/ to those who may read that path.
	Profiling bool
	// Trace records the hops of requests and is what /debug/garboard/trace shows; may be nil.
	Trace *trace.Recorder
	// Debug are handlers of what else the process shows of itself, by path below
	// /debug/garboard/, to those who may read that path.
	Debug map[string]http.Handler
}

// AdmissionPlugins are the names of all admission plugins, in the order in which they run.
func AdmissionPlugins() []string { return admission.PluginNames() }

// readsKeys says that others fill CertDir.
func (c Config) readsKeys() bool { return c.TLSCertFile != "" }

// complete fills in defaults and names everything that is wrong. It reads and writes nothing; see
// load.
func (c Config) complete() (Config, error) {
	var errs []error
	if c.Listener == nil {
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			errs = append(errs, fmt.Errorf("the address to listen at, %q, is not HOST:PORT", c.Listen))
		}
	}
	if c.CertDir == "" {
		errs = append(errs, errors.New("no folder for certificates is set"))
	}
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		errs = append(errs, errors.New("of the serving certificate (--tls-cert-file) and its key (--tls-private-key-file) one is set and the other is not"))
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
	if _, err := c.overrides(); err != nil {
		errs = append(errs, err)
	}
	if c.ShutdownDelay < 0 || c.ShutdownWatchGrace < 0 {
		errs = append(errs, fmt.Errorf("the server cannot end with a delay of %v and its watches over %v", c.ShutdownDelay, c.ShutdownWatchGrace))
	}
	if _, err := c.advertise(nil); err != nil {
		errs = append(errs, err)
	}
	if c.EtcdCompactionInterval < 0 {
		errs = append(errs, fmt.Errorf("etcd cannot be compacted every %v", c.EtcdCompactionInterval))
	}
	if c.EventTTL == 0 {
		c.EventTTL = DefaultEventTTL
	}
	if c.EventTTL < 0 {
		errs = append(errs, fmt.Errorf("events cannot be kept for %v", c.EventTTL))
	}
	if c.BusLife < 0 || c.BusLife > 0 && c.BusLife < minBusLife {
		errs = append(errs, fmt.Errorf("clients' connections to NATS cannot last %v: it must be %v or more", c.BusLife, minBusLife))
	}
	if c.EtcdPrefix == "" {
		c.EtcdPrefix = DefaultEtcdPrefix
	}
	if c.ServiceCIDR == "" {
		c.ServiceCIDR = DefaultServiceCIDR
	}
	if _, err := c.serviceCIDRs(); err != nil {
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
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("configuring the apiserver: %w", err)
	}
	return c, nil
}

// load reads what the configuration names, and from the machine what is not set.
func (c *Config) load() error {
	if c.Hostname == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("finding the host's name: %w", err)
		}
		c.Hostname = strings.ToLower(host)
	}
	return c.Audit.load()
}
