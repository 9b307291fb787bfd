package standalone

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/controllers"
	"github.com/garboard/garboard/services/nodeagent"
)

// Values of Config.Runtime.
const (
	// Auto uses containerd if its socket answers, else the simulated runtime.
	Auto = "auto"
	// Containerd runs real containers.
	Containerd = "containerd"
	// Simulated starts nothing.
	Simulated = "simulated"
)

// Config configures a plane in one process.
type Config struct {
	// DataDir is the folder of everything that outlives the process; created if missing.
	DataDir string
	// Listen is the apiserver's address, host:port; port 0 chooses a free one. If empty, the
	// apiserver listens at DefaultListen and at the address of this machine's default route, which
	// is published to pods.
	Listen string
	// ServiceCIDR is the range of service addresses, or two comma-separated ranges of different
	// address families; the apiserver's default if empty.
	ServiceCIDR string
	// ClusterCIDRs are the range of pod addresses, or one of each IP family, of which the nodes get their pod
	// CIDRs; they get none if empty.
	ClusterCIDRs []string
	// DNSService has the Service kube-system/kube-dns created, at which node agents answer DNS questions.
	DNSService bool
	// Admission selects and configures the apiserver's admission plugins.
	Admission apiserver.Admission
	// Enablement turns the apiserver's features and API versions on or off.
	Enablement apiserver.Enablement
	// Controllers are the controllers that run, as in controllers.Config; all when empty.
	Controllers []string
	// Autoscaling and MetricsServer are passed to the controllers.
	Autoscaling   controllers.Autoscaling
	MetricsServer controllers.MetricsServer
	// NodeLifecycle is passed to the controllers.
	NodeLifecycle controllers.NodeLifecycle
	// LocalPathClass is the StorageClass of local-path volumes, as in controllers.Config.
	LocalPathClass string
	// NATSListen is where NATS accepts TLS connections from other programs, host:port; nowhere if
	// empty.
	NATSListen string
	// Nodes is the number of node agents.
	Nodes int
	// Runtime is Auto, Containerd or Simulated.
	Runtime string
	// ContainerdEndpoint is containerd's CRI socket.
	ContainerdEndpoint string
	// AllowedUnsafeSysctls is passed to the node agents.
	AllowedUnsafeSysctls []string
	// Network configures the network parts of the node agents.
	Network nodeagent.NetworkConfig
	// Simulated configures the simulated runtime.
	Simulated nodeagent.SimulatedConfig
	// Transport is what carries the services' calls to the apiserver. If empty, it is HTTPS for all
	// services but the node agents.
	Transport client.Transport
	// Progress receives human-readable lines about the progress of the start; may be nil.
	Progress io.Writer
	// Logger receives the log; required.
	Logger *slog.Logger
	// Version is the program's version, which the services report about themselves.
	Version string
	// Flags returns the values of the process's flags by name, for the apiserver's /flagz; nil if it is not served.
	Flags func() map[string]string
	// Program is the command by which the user runs this program, for its hints on what to type
	// next.
	Program string

	// Tests override these: local is DefaultListen, and choose finds the address of the default
	// route.
	local  string
	choose func() (net.IP, error)
}

// complete sets defaults and returns everything that is wrong, by the flags that set it. It does no
// I/O.
func (c *Config) complete() error {
	if c.Progress == nil {
		c.Progress = io.Discard
	}
	var errs []error
	if c.DataDir == "" {
		errs = append(errs, errors.New("--data-dir must name a folder"))
	}
	if _, _, err := net.SplitHostPort(c.Listen); c.Listen != "" && err != nil {
		errs = append(errs, fmt.Errorf("--listen %q: give HOST:PORT, for example 127.0.0.1:6443", c.Listen))
	}
	if c.NATSListen != "" {
		if _, port, err := net.SplitHostPort(c.NATSListen); err != nil || port == "0" {
			errs = append(errs, fmt.Errorf("--nats-listen %q: give HOST:PORT, for example 127.0.0.1:4222", c.NATSListen))
		}
	}
	if c.Nodes < 0 {
		errs = append(errs, fmt.Errorf("--nodes %d: give 0 or more", c.Nodes))
	}
	switch c.Runtime {
	case Auto, Containerd, Simulated:
	default:
		errs = append(errs, fmt.Errorf("--runtime %q: give auto, containerd or simulated", c.Runtime))
	}
	if err := controllers.Check(c.Controllers); err != nil {
		errs = append(errs, err)
	}
	if err := c.Transport.Check(); err != nil {
		errs = append(errs, fmt.Errorf("--api-transport: %w", err))
	}
	if c.Runtime == Containerd && c.Nodes > 1 {
		errs = append(errs, fmt.Errorf("--nodes %d with containerd: one containerd is one node; use --runtime simulated for more", c.Nodes))
	}
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	if len(texts) > 0 {
		return errors.New(strings.Join(texts, "; "))
	}
	return nil
}
