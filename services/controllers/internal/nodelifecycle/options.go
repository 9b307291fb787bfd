package nodelifecycle

import (
	"errors"
	"fmt"
	"time"
)

// Options say when a silent node counts as lost, and how fast lost nodes are given up. The fields are
// kube-controller-manager's flags of the node lifecycle controller.
type Options struct {
	// MonitorGrace is how long a node may be silent before it counts as lost
	// (--node-monitor-grace-period); at least one second. Agents renew their Leases every ten seconds.
	MonitorGrace time.Duration
	// StartupGrace is how long a node that has never reported may take to do so
	// (--node-startup-grace-period); at least one second.
	StartupGrace time.Duration
	// EvictionRate is how many lost nodes a second get the taint that evicts their pods, in a zone most of
	// whose nodes are ready (--node-eviction-rate); none when 0.
	EvictionRate float64
	// SecondaryEvictionRate is the rate in a large zone of which too many nodes are lost
	// (--secondary-node-eviction-rate); in a zone that is not large it is 0.
	SecondaryEvictionRate float64
	// LargeZone is the number of nodes above which a zone is large (--large-cluster-size-threshold).
	LargeZone int
	// UnhealthyShare is the share of a zone's nodes, and at least three of them, whose loss makes
	// SecondaryEvictionRate the rate (--unhealthy-zone-threshold); above 0, at most 1.
	UnhealthyShare float64
}

// DefaultOptions returns Kubernetes' settings.
func DefaultOptions() Options {
	return Options{
		MonitorGrace: 50 * time.Second, StartupGrace: 60 * time.Second,
		EvictionRate: 0.1, SecondaryEvictionRate: 0.01, LargeZone: 50, UnhealthyShare: 0.55,
	}
}

// Check returns everything that is wrong.
func (o Options) Check() error {
	var faults []error
	grace := func(flag string, d time.Duration) {
		if d < time.Second {
			faults = append(faults, fmt.Errorf("%s is %v, must be at least one second", flag, d))
		}
	}
	grace("--node-monitor-grace-period", o.MonitorGrace)
	grace("--node-startup-grace-period", o.StartupGrace)
	// The comparisons are written so that NaN fails them.
	rate := func(flag string, perSecond float64) {
		if !(perSecond >= 0) {
			faults = append(faults, fmt.Errorf("%s is %v, must be at least 0", flag, perSecond))
		}
	}
	rate("--node-eviction-rate", o.EvictionRate)
	rate("--secondary-node-eviction-rate", o.SecondaryEvictionRate)
	if o.LargeZone < 0 {
		faults = append(faults, fmt.Errorf("--large-cluster-size-threshold is %d, must be at least 0", o.LargeZone))
	}
	if !(o.UnhealthyShare > 0 && o.UnhealthyShare <= 1) {
		faults = append(faults, fmt.Errorf("--unhealthy-zone-threshold is %v, must be above 0 and at most 1", o.UnhealthyShare))
	}
	return errors.Join(faults...)
}
