package flags

import (
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/election"
)

// Election declares the flags for the timing of leader election, under kube-controller-manager's
// and kube-scheduler's names.
func Election(flags *pflag.FlagSet, timing *election.Timing) {
	daemon.Group(flags, "Leader election", func(flags *pflag.FlagSet) {
		flags.DurationVar(&timing.LeaseDuration, "leader-elect-lease-duration", election.DefaultLeaseDuration,
			"time without a renewal after which another replica takes over the lease; whole seconds")
		flags.DurationVar(&timing.RenewDeadline, "leader-elect-renew-deadline", election.DefaultRenewDeadline,
			"time without a successful renewal after which the leader stops leading; less than the lease duration")
		flags.DurationVar(&timing.RetryPeriod, "leader-elect-retry-period", election.DefaultRetryPeriod,
			"interval between renewals, and between attempts to take the lease")
	})
}
