package nodeagent

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent/internal/admit"
	"github.com/garboard/garboard/services/nodeagent/internal/node"
)

// DefaultMaxPods is the number of pods a node runs when Config does not set it (the kubelet's
// --max-pods).
const DefaultMaxPods = 110

// DefaultNodeLeaseDurationSeconds is how long a renewed Lease of the node holds when Config does not say (the
// kubelet's nodeLeaseDurationSeconds).
const DefaultNodeLeaseDurationSeconds = int32(node.DefaultLeaseDuration / time.Second)

// SimulatedRuntime is the runtime endpoint that selects the simulated runtime: an in-process CRI
// server that starts nothing.
const SimulatedRuntime = "simulated"

// DefaultContainerd is containerd's usual CRI socket.
const DefaultContainerd = "unix:///run/containerd/containerd.sock"

// DefaultLocalVolumesDir is the usual LocalVolumesDir.
const DefaultLocalVolumesDir = "local-volumes"

// Config configures a node agent.
type Config struct {
	// NodeName is the name of this agent's Node; required, a DNS subdomain.
	NodeName string
	// Service is what all services have. Its Bus is required, and its API unless Bootstrap is set.
	// Its Identity is NodeName.
	Service service.Config
	// Gatherer has the process's metrics, which apiservers may read at the agent's /metrics; may be nil.
	Gatherer prometheus.Gatherer
	// Bootstrap is the path of a kubeconfig with the apiserver's address, its CA and a bootstrap
	// token. The agent reads it again whenever it requests a certificate. With it the agent obtains
	// and renews its own client certificate in DataDir/pki, and presents that to the apiserver and
	// to NATS.
	Bootstrap string
	// APIServers are https URLs of apiservers, used in place of the one in Bootstrap.
	APIServers []string
	// BootstrapServers are URLs of NATS servers that let in clients without a certificate. The agent connects
	// to them to ask for its first certificate, and to Service.Bus if there are none.
	BootstrapServers []string
	// Runtime is the container runtime; required.
	Runtime RuntimeConfig
	// DataDir holds the pods' volumes and files, and their logs unless LogDir is set; required.
	DataDir string
	// LocalVolumesDir holds the folders of local volumes, which outlive pods. A relative path is below
	// DataDir. The container runtime must find it under the same path. When empty, the node has no local
	// volumes.
	LocalVolumesDir string
	// LogDir holds the containers' logs; DataDir/logs when empty.
	LogDir string
	// Labels are set on the Node in addition to Kubernetes' own. New rejects labels in
	// Kubernetes' domains that a node may not set on itself.
	Labels map[string]string
	// MaxPods is the maximum number of pods on the node; DefaultMaxPods when 0.
	MaxPods int
	// AllowedUnsafeSysctls are the kernel parameters that pods may set beyond the safe ones, which
	// any pod may set. Each is a name, or a prefix that ends in "*".
	AllowedUnsafeSysctls []string
	// NodeIP is the node's address; taken from the default route when empty.
	NodeIP string
	// PodCIDR is the range of pod addresses under the simulated runtime; derived from the node's
	// name when not set. Other runtimes have their own network configuration.
	PodCIDR netip.Prefix
	// ClusterDNS are the name servers of pods with dnsPolicy ClusterFirst. When empty such pods use
	// the node's own servers and get an Event that says so.
	ClusterDNS []string
	// ClusterDomain is the DNS domain of Services; "cluster.local" when empty.
	ClusterDomain string
	// Network configures the network parts.
	Network NetworkConfig
	// Listen is where the agent serves the kubelet's API over TLS, HOST:PORT; nowhere when empty. Apiservers
	// reach it over the bus in any case.
	Listen string
	// TLSCertFile and TLSPrivateKeyFile are the PEM files of the port's certificate; the agent signs its own
	// when they are empty. ClientCAFile has the CAs of the port's clients; only tokens name users when it is
	// empty. (The kubelet's flags of these names.)
	TLSCertFile, TLSPrivateKeyFile, ClientCAFile string
	// SystemLogHandler serves the files below /var/log at the agent's /logs/, and SystemLogQuery the logs of
	// services, too. (The kubelet's enableSystemLogHandler and enableSystemLogQuery.)
	SystemLogHandler, SystemLogQuery bool
	// NodeLeaseDurationSeconds is how long a renewed Lease of the node holds; the agent renews it four times as
	// often. 40 when 0. (The kubelet's nodeLeaseDurationSeconds.)
	NodeLeaseDurationSeconds int32
	// ShutdownGracePeriod is the time the pods have to terminate when the agent is told to stop.
	// Set it where the containers die with the agent; when it is 0 they are left running. The agent
	// terminates critical pods last and reserves ShutdownGracePeriodCriticalPods of the period for
	// them. (The kubelet's shutdownGracePeriod and shutdownGracePeriodCriticalPods.)
	ShutdownGracePeriod, ShutdownGracePeriodCriticalPods time.Duration
}

// RuntimeConfig chooses the container runtime.
type RuntimeConfig struct {
	// Endpoint is a CRI socket ("unix:///run/containerd/containerd.sock", or a plain path), or
	// SimulatedRuntime.
	Endpoint string
	// Simulated sets the behaviour of the simulated runtime.
	Simulated SimulatedConfig
}

// complete sets defaults and returns everything that is wrong. It does no I/O.
func (c *Config) complete() error {
	if c.LogDir == "" && c.DataDir != "" {
		c.LogDir = filepath.Join(c.DataDir, "logs")
	}
	if c.MaxPods == 0 {
		c.MaxPods = DefaultMaxPods
	}
	if c.ClusterDomain == "" {
		c.ClusterDomain = "cluster.local"
	}
	c.Service.Identity = c.NodeName
	faults := []error{c.Service.Complete()}
	if c.NodeName == "" {
		faults = append(faults, errors.New("no node name is set"))
	} else if problems := validation.IsDNS1123Subdomain(c.NodeName); len(problems) > 0 {
		faults = append(faults, fmt.Errorf("the node name %q is not valid: %s", c.NodeName, strings.Join(problems, "; ")))
	}
	if c.Bootstrap == "" {
		faults = append(faults, c.Service.Reachable())
	}
	faults = append(faults, c.checkBootstrapServers())
	if c.Runtime.Endpoint == "" {
		faults = append(faults, errors.New("no container runtime endpoint is set"))
	}
	if c.DataDir == "" {
		faults = append(faults, errors.New("no data directory is set"))
	} else if !filepath.IsAbs(c.DataDir) {
		faults = append(faults, fmt.Errorf("the data directory %q is not an absolute path", c.DataDir))
	}
	if c.LocalVolumesDir != "" {
		if !filepath.IsAbs(c.LocalVolumesDir) {
			c.LocalVolumesDir = filepath.Join(c.DataDir, c.LocalVolumesDir)
		}
		c.LocalVolumesDir = filepath.Clean(c.LocalVolumesDir)
		faults = append(faults, localvolume.CheckFolder(c.LocalVolumesDir))
	}
	faults = append(faults, c.Network.complete())
	// The agent checks at start which of them the kernel has.
	if _, err := admit.NewSysctls("", c.AllowedUnsafeSysctls); err != nil {
		faults = append(faults, err)
	}
	faults = append(faults, checkLabels(c.Labels)...)
	if c.NodeLeaseDurationSeconds = cmp.Or(c.NodeLeaseDurationSeconds, DefaultNodeLeaseDurationSeconds); c.NodeLeaseDurationSeconds < 1 {
		faults = append(faults, fmt.Errorf("the duration of the node's Lease must be at least one second, got %d", c.NodeLeaseDurationSeconds))
	}
	if c.ShutdownGracePeriod != 0 && c.ShutdownGracePeriod < time.Second {
		faults = append(faults, fmt.Errorf("the shutdown grace period must be 0 or at least one second, got %v", c.ShutdownGracePeriod))
	}
	if c.ShutdownGracePeriodCriticalPods < 0 || c.ShutdownGracePeriodCriticalPods > c.ShutdownGracePeriod {
		faults = append(faults, fmt.Errorf("the shutdown grace period of critical pods must be between 0 and the %v of all pods, got %v",
			c.ShutdownGracePeriod, c.ShutdownGracePeriodCriticalPods))
	}
	if (c.TLSCertFile == "") != (c.TLSPrivateKeyFile == "") {
		faults = append(faults, errors.New("the certificate and the private key of the port must be set together"))
	}
	if c.Listen == "" && c.TLSCertFile+c.TLSPrivateKeyFile+c.ClientCAFile != "" {
		faults = append(faults, errors.New("the certificates of the port have no effect, since no address to listen at is set"))
	} else if _, _, err := net.SplitHostPort(c.Listen); c.Listen != "" && err != nil {
		faults = append(faults, fmt.Errorf("the address to listen at is not HOST:PORT: %w", err))
	}
	if c.SystemLogQuery && !c.SystemLogHandler {
		faults = append(faults, errors.New("the query of system logs needs the handler of system logs"))
	}
	if c.MaxPods < 0 {
		faults = append(faults, fmt.Errorf("the maximum number of pods must not be negative, got %d", c.MaxPods))
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("configuring the node agent: %w", err)
	}
	return nil
}

// checkBootstrapServers returns what is wrong with BootstrapServers.
func (c *Config) checkBootstrapServers() error {
	if len(c.BootstrapServers) == 0 {
		return nil
	}
	if c.Bootstrap == "" {
		return errors.New("there are NATS servers for joining, and no bootstrap kubeconfig")
	}
	nats := c.Service.Bus
	nats.URLs = c.BootstrapServers
	return nats.CheckServers()
}
