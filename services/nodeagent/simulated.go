package nodeagent

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"path/filepath"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
)

// SimulatedConfig sets how the simulated runtime behaves. Pods may say otherwise for
// themselves, by annotations that begin with "simulated.garboard.io/".
type SimulatedConfig struct {
	// StartDelay is how long a container takes to start.
	StartDelay time.Duration
	// RunFor is how long a container runs before it exits with ExitCode; for ever when 0.
	RunFor time.Duration
	// ExitCode is the code with which containers exit after RunFor.
	ExitCode int32
	// Fail, when set, is asked before each call by CRI's name of it ("RunPodSandbox"); its
	// error is the call's.
	Fail func(call string) error
}

func (c *Config) newSimulated() (*simulated.Runtime, error) {
	cidr := c.PodCIDR
	if !cidr.IsValid() {
		cidr = simulatedCIDR(c.NodeName)
	}
	runtime, err := simulated.New(simulated.Config{
		Dir: filepath.Join(c.DataDir, "simulated"), PodCIDR: cidr,
		StartDelay: c.Runtime.Simulated.StartDelay, RunFor: c.Runtime.Simulated.RunFor,
		ExitCode: c.Runtime.Simulated.ExitCode, Fail: c.Runtime.Simulated.Fail, Logger: c.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("running the node agent: %w", err)
	}
	return runtime, nil
}

// simulatedCIDR gives a node a range of addresses of its own, most likely: 10.128.0.0/9 has
// room for 32,768 of them. Nothing is routed to them.
func simulatedCIDR(node string) netip.Prefix {
	h := fnv.New32a()
	h.Write([]byte(node))
	sum := h.Sum32()
	address := netip.AddrFrom4([4]byte{10, 128 | byte(sum>>8&0x7f), byte(sum), 0})
	return netip.PrefixFrom(address, 24)
}
