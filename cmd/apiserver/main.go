// Command apiserver serves the Kubernetes API from etcd and publishes its changes on NATS.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/services/apiserver"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(daemon.Main(command())) }

// leastGrowth is how much the heap may grow between two garbage collections, in bytes: little next to the memory that a
// server of requests needs for them.
const leastGrowth = 128 << 20

func command() *cobra.Command {
	shared := flags.NewService("apiserver", version)
	var cfg apiserver.Config
	var kubeconfig adminKubeconfig
	return daemon.Command{
		Use: "apiserver", Short: "Serves the Kubernetes API from etcd and publishes its changes on NATS", Version: version,
		Flags: func(set *pflag.FlagSet) {
			shared.Bus(set)
			apiFlags(set, &cfg)
			kubeconfig.flags(set)
			cfg.Flags = func() map[string]string { return daemon.Values(set) }
		},
		Probe: func() daemon.Probe { return probe(&cfg) },
		Run: func(ctx context.Context, log *slog.Logger) error {
			cfg.Bus.NATS, cfg.Logger, cfg.Trace = shared.BusConfig(log), log, shared.Trace()
			cfg.Registerer, cfg.Gatherer, cfg.Version = shared.Metrics(), shared.Metrics(), version
			server, err := apiserver.New(cfg)
			if err != nil {
				return err
			}
			// The apiserver serves its own health endpoints.
			return lifecycle.Run(ctx, log,
				shared.Tracing(log),
				lifecycle.Stage{Name: "garbage collection", Run: daemon.CollectGarbage(leastGrowth)},
				lifecycle.Stage{Name: "apiserver", Run: server.Run, Ready: kubeconfig.after(server.Ready, cfg)},
			)
		},
	}.Cobra()
}
