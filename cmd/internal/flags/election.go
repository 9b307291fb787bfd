package flags

import (
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/election"
)

// Election declares how fast one replica follows another, under kube-controller-manager's and
// kube-scheduler's names.
func Election(flags *pflag.FlagSet, timing *election.Timing) {
	daemon.Group(flags, "Leader election", func(flags *pflag.FlagSet) {
		flags.DurationVar(&timing.LeaseDuration, "leader-elect-lease-duration", election.DefaultLeaseDuration,
			"after how long without a renewal a replica takes the lease of another; whole seconds")
		flags.DurationVar(&timing.RenewDeadline, "leader-elect-renew-deadline", election.DefaultRenewDeadline,
			"after how long without success the leader stops to lead; less than the lease's duration")
		flags.DurationVar(&timing.RetryPeriod, "leader-elect-retry-period", election.DefaultRetryPeriod,
			"the pause between renewals, and between attempts to take the lease")
	})
}
