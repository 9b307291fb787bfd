package nodeagent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/nodeagent/internal/admit"
)

// DefaultMaxPods is how many pods a node takes when Config does not say (the kubelet's
// --max-pods).
const DefaultMaxPods = 110

// SimulatedRuntime is the runtime endpoint that stands for the simulated runtime: an
// in-process CRI server that starts nothing.
const SimulatedRuntime = "simulated"

// DefaultContainerd is containerd's usual CRI socket.
const DefaultContainerd = "unix:///run/containerd/containerd.sock"

// Config is what a node agent needs to know.
type Config struct {
	// NodeName is the name of the Node that this agent is; required, a DNS subdomain.
	NodeName string
	// API tells how to reach the apiserver; required unless Bootstrap is set.
	API *rest.Config
	// Bootstrap is a kubeconfig with the apiserver's address and authority and a bootstrap token,
	// read again when a certificate is asked for. With it the agent gets and keeps its own client
	// certificate in DataDir/pki, and shows that to the apiserver and to NATS.
	Bootstrap string
	// APIServers are https URLs of the apiservers in place of Bootstrap's one.
	APIServers []string
	// Bus tells how to reach NATS; required.
	Bus bus.Config
	// Transport says what carries calls to the apiserver; HTTPS if empty.
	Transport client.Transport
	// Runtime is the container runtime; required.
	Runtime RuntimeConfig
	// DataDir holds pods' volumes and files, and their logs unless LogDir is set; required.
	DataDir string
	// LogDir holds containers' logs; DataDir/logs when empty.
	LogDir string
	// Labels are put on the Node beside Kubernetes' own. Those of Kubernetes' domains that a
	// node may not give itself are refused.
	Labels map[string]string
	// MaxPods is how many pods the node takes; DefaultMaxPods when 0.
	MaxPods int
	// AllowedUnsafeSysctls are kernel parameters that pods may set beside the safe ones, which any
	// pod may: names, or beginnings of names that end in "*".
	AllowedUnsafeSysctls []string
	// NodeIP is the node's address; found from the default route when empty.
	NodeIP string
	// PodCIDR is the range of the pods' addresses under the simulated runtime; derived from the
	// node's name when it is not set. Other runtimes have their own network configuration.
	PodCIDR netip.Prefix
	// ClusterDNS are the name servers of pods with dnsPolicy ClusterFirst; when empty such
	// pods use the node's own, and get an Event that says so.
	ClusterDNS []string
	// ClusterDomain is the DNS domain of Services; "cluster.local" when empty.
	ClusterDomain string
	// Version is that of the program, which it tells of itself.
	Version string
	// ShutdownGracePeriod is how long the pods may take to end when the agent is told to, which
	// is right where the containers die with it; they are left running when 0. So much of it as
	// ShutdownGracePeriodCriticalPods says is for pods that the system needs, which end last. (The
	// kubelet's shutdownGracePeriod and shutdownGracePeriodCriticalPods.)
	ShutdownGracePeriod, ShutdownGracePeriodCriticalPods time.Duration
	// Logger takes the log; slog's default when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; they are not kept when nil.
	Registerer prometheus.Registerer
	// Trace takes the hops of changes; may be nil.
	Trace *trace.Recorder
}

// RuntimeConfig chooses the container runtime.
type RuntimeConfig struct {
	// Endpoint is a CRI socket ("unix:///run/containerd/containerd.sock", or a plain path), or
	// SimulatedRuntime.
	Endpoint string
	// Simulated sets the behaviour of the simulated runtime.
	Simulated SimulatedConfig
}

func (c *Config) setDefaults() {
	if c.LogDir == "" && c.DataDir != "" {
		c.LogDir = filepath.Join(c.DataDir, "logs")
	}
	if c.MaxPods == 0 {
		c.MaxPods = DefaultMaxPods
	}
	if c.ClusterDomain == "" {
		c.ClusterDomain = "cluster.local"
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
	if c.NodeName == "" {
		faults = append(faults, errors.New("no node name is set"))
	} else if problems := validation.IsDNS1123Subdomain(c.NodeName); len(problems) > 0 {
		faults = append(faults, fmt.Errorf("the node name %q is not valid: %s", c.NodeName, strings.Join(problems, "; ")))
	}
	if c.Bootstrap == "" && (c.API == nil || c.API.Host == "") {
		faults = append(faults, errors.New("no apiserver address is set"))
	}
	if err := c.Transport.Check(); err != nil {
		faults = append(faults, err)
	}
	if c.Runtime.Endpoint == "" {
		faults = append(faults, errors.New("no container runtime endpoint is set"))
	}
	if c.DataDir == "" {
		faults = append(faults, errors.New("no data directory is set"))
	} else if !filepath.IsAbs(c.DataDir) {
		faults = append(faults, fmt.Errorf("the data directory %q is not an absolute path", c.DataDir))
	}
	// Which of them the kernel has is seen when the agent starts.
	if _, err := admit.NewSysctls("", c.AllowedUnsafeSysctls); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, checkLabels(c.Labels)...)
	if c.ShutdownGracePeriod != 0 && c.ShutdownGracePeriod < time.Second {
		faults = append(faults, fmt.Errorf("the pods cannot end within %v: give 0, or one second or more", c.ShutdownGracePeriod))
	}
	if c.ShutdownGracePeriodCriticalPods < 0 || c.ShutdownGracePeriodCriticalPods > c.ShutdownGracePeriod {
		faults = append(faults, fmt.Errorf("the time in which critical pods end, %v, is not a part of the %v in which all do", c.ShutdownGracePeriodCriticalPods, c.ShutdownGracePeriod))
	}
	if c.MaxPods < 0 {
		faults = append(faults, fmt.Errorf("the number of pods %d is negative", c.MaxPods))
	}
	if len(faults) > 0 {
		return fmt.Errorf("configuring the node agent: %w", errors.Join(faults...))
	}
	return nil
}
