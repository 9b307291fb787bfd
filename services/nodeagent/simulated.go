package nodeagent

import (
	"hash/fnv"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
)

// SimulatedConfig configures the behaviour of the simulated runtime. A pod can override it with
// annotations that begin with "simulated.garboard.io/".
type SimulatedConfig struct {
	// StartDelay is the time a container takes to start.
	StartDelay time.Duration
	// RunFor is the time after which a container exits with ExitCode; it never exits when 0.
	RunFor time.Duration
	// ExitCode is the exit code of containers after RunFor.
	ExitCode int32
	// Fail, when set, is called before each call with its CRI name ("RunPodSandbox"). If it returns
	// an error, the call fails with it.
	Fail func(call string) error
}

// newSimulated returns the simulated runtime.
func (c *Config) newSimulated() (*simulated.Runtime, error) {
	cidr := c.PodCIDR
	if !cidr.IsValid() {
		cidr = simulatedCIDR(c.NodeName)
	}
	return simulated.New(simulated.Config{
		Dir: filepath.Join(c.DataDir, "simulated"), PodCIDR: cidr,
		StartDelay: c.Runtime.Simulated.StartDelay, RunFor: c.Runtime.Simulated.RunFor,
		ExitCode: c.Runtime.Simulated.ExitCode, Fail: c.Runtime.Simulated.Fail, Logger: c.Service.Logger,
	})
}

// simulatedCIDR derives a node's address range from its name. 10.128.0.0/9 has 32,768 such ranges,
// so two nodes rarely share one. Nothing is routed to them.
func simulatedCIDR(node string) netip.Prefix {
	h := fnv.New32a()
	h.Write([]byte(node))
	sum := h.Sum32()
	address := netip.AddrFrom4([4]byte{10, 128 | byte(sum>>8&0x7f), byte(sum), 0})
	return netip.PrefixFrom(address, 24)
}
