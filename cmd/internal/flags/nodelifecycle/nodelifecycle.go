// Package nodelifecycle declares the flags for the health of nodes, for the commands that run the
// controllers.
package nodelifecycle

import (
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/controllers"
)

// Flags declares Kubernetes' flags of the node lifecycle controller. It sets o to the defaults.
func Flags(flags *pflag.FlagSet, o *controllers.NodeLifecycle) {
	*o = controllers.DefaultNodeLifecycle()
	daemon.Group(flags, "Health of nodes", func(set *pflag.FlagSet) {
		set.DurationVar(&o.MonitorGrace, "node-monitor-grace-period", o.MonitorGrace,
			"time without a sign of life after which a node is not ready; agents renew their Leases every ten seconds")
		set.DurationVar(&o.StartupGrace, "node-startup-grace-period", o.StartupGrace, "the same for a node that has never reported its state")
		set.Float64Var(&o.EvictionRate, "node-eviction-rate", o.EvictionRate,
			"nodes a second whose pods are evicted because they are lost, in a healthy zone; none when 0")
		set.Float64Var(&o.SecondaryEvictionRate, "secondary-node-eviction-rate", o.SecondaryEvictionRate,
			"the same in an unhealthy zone that is large; in a smaller one no pods are evicted")
		set.Float64Var(&o.UnhealthyShare, "unhealthy-zone-threshold", o.UnhealthyShare,
			"share of a zone's nodes, and at least three of them, whose loss makes it unhealthy")
		set.IntVar(&o.LargeZone, "large-cluster-size-threshold", o.LargeZone, "number of nodes above which a zone is large")
	})
}
