package standalone

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/nodeagent"
)

// Choices of Config.Runtime.
const (
	// Auto takes containerd if its socket answers, else the simulated runtime.
	Auto = "auto"
	// Containerd runs real containers.
	Containerd = "containerd"
	// Simulated starts nothing.
	Simulated = "simulated"
)

// Config is what a plane in one process needs to know.
type Config struct {
	// DataDir is the folder of everything that outlives the process; made if it is missing.
	DataDir string
	// Listen is the apiserver's address, host:port; port 0 takes a free one. If empty, it listens at
	// DefaultListen and at the address of this machine's default route, which pods are told then.
	Listen string
	// ServiceCIDR is the range of service addresses, or two of different address families with a
	// comma between; the apiserver's default if empty.
	ServiceCIDR string
	// NATSListen is where NATS takes TLS connections from other programs, host:port; empty for
	// nowhere.
	NATSListen string
	// Nodes is the number of node agents.
	Nodes int
	// Runtime is Auto, Containerd or Simulated.
	Runtime string
	// ContainerdEndpoint is containerd's CRI socket.
	ContainerdEndpoint string
	// AllowedUnsafeSysctls are the node agents'.
	AllowedUnsafeSysctls []string
	// Simulated is how the simulated runtime behaves.
	Simulated nodeagent.SimulatedConfig
	// Transport says what carries the services' calls to the apiserver; if empty, HTTPS for all
	// but the node agents.
	Transport client.Transport
	// Progress is told, in lines for a person, how far the start is; nil for nobody.
	Progress io.Writer
	// Logger takes the log; required.
	Logger *slog.Logger
	// Version is that of the program, which the services tell of themselves.
	Version string
	// Program is how the user calls this program, for what it says to type next.
	Program string

	// local is DefaultListen, and choose finds the address of the default route, but in tests.
	local  string
	choose func() (net.IP, error)
}

// validate names everything that is wrong, by the flags that set it.
func (c Config) validate() error {
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
