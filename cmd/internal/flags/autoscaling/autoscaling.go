// Package autoscaling declares the flags for horizontal pod autoscaling, for the commands that run the
// controllers.
package autoscaling

import (
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/controllers"
)

// Flags declares Kubernetes' flags of the controller of HorizontalPodAutoscalers, and those that name a server
// of metrics. It sets o to the defaults.
func Flags(flags *pflag.FlagSet, o *controllers.Autoscaling, server *controllers.MetricsServer) {
	*o = controllers.DefaultAutoscaling()
	daemon.Group(flags, "Horizontal pod autoscaling", func(set *pflag.FlagSet) {
		set.IntVar(&o.Workers, "concurrent-horizontal-pod-autoscaler-syncs", o.Workers, "autoscalers that are reconciled at a time")
		set.DurationVar(&o.SyncPeriod, "horizontal-pod-autoscaler-sync-period", o.SyncPeriod, "time after which an autoscaler is reconciled again")
		set.DurationVar(&o.DownscaleStabilization, "horizontal-pod-autoscaler-downscale-stabilization", o.DownscaleStabilization,
			"time within which no fewer replicas are asked for than were recommended, unless an autoscaler has its own")
		set.Float64Var(&o.Tolerance, "horizontal-pod-autoscaler-tolerance", o.Tolerance,
			"share by which a metric may differ from its target before anything is scaled, unless an autoscaler has its own")
		set.DurationVar(&o.CPUInitialization, "horizontal-pod-autoscaler-cpu-initialization-period", o.CPUInitialization,
			"time after a pod's start in which its use of CPU counts only once it is ready and measured since")
		set.DurationVar(&o.InitialReadinessDelay, "horizontal-pod-autoscaler-initial-readiness-delay", o.InitialReadinessDelay,
			"time after a pod's start in which a change of its readiness counts as the first")
		set.StringVar(&server.Server, "horizontal-pod-autoscaler-metrics-server", "",
			"URL of a server of the APIs of metrics, asked in place of the apiserver; an http URL is called without a token")
		set.StringVar(&server.CAFile, "horizontal-pod-autoscaler-metrics-server-ca-file", "", "PEM file of the authorities of that server's certificate; the system's when empty")
		set.StringVar(&server.TokenFile, "horizontal-pod-autoscaler-metrics-server-token-file", "", "file with the token for that server, read again when it changes")
	})
}
