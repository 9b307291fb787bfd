// Command scheduler chooses nodes for pods.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/services/scheduler"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(daemon.Main(command())) }

func command() *cobra.Command {
	shared := flags.NewService("scheduler", version)
	var timing election.Timing
	return daemon.Command{
		Use: "scheduler", Short: "Chooses nodes for pods", Version: version,
		Flags: func(set *pflag.FlagSet) {
			shared.Bus(set)
			shared.API(set, client.TransportHTTP, "127.0.0.1:10259")
			flags.Election(set, &timing)
		},
		Probe: shared.Probe,
		Run: func(ctx context.Context, log *slog.Logger) error {
			api, err := shared.APIConfig(log)
			if err != nil {
				return err
			}
			service, err := scheduler.New(scheduler.Config{
				API: api, Bus: shared.BusConfig(log), Transport: shared.Transport(), Election: timing, Logger: log, Registerer: shared.Metrics(), Trace: shared.Trace(), Version: version,
			})
			if err != nil {
				return err
			}
			return shared.Run(ctx, log, service)
		},
	}.Cobra()
}
