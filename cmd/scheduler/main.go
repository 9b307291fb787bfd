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
	"github.com/garboard/garboard/services/scheduler"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(daemon.Main(command())) }

func command() *cobra.Command {
	shared := flags.NewService("scheduler", version)
	var cfg scheduler.Config
	return daemon.Command{
		Use: "scheduler", Short: "Chooses nodes for pods", Version: version,
		Flags: func(set *pflag.FlagSet) {
			shared.Bus(set)
			shared.API(set, client.TransportHTTP, "127.0.0.1:10259")
			flags.Election(set, &cfg.Election)
		},
		Probe: shared.Probe,
		Run: func(ctx context.Context, log *slog.Logger) (err error) {
			cfg.Service = shared.Config(log)
			if cfg.Service.API, err = shared.APIConfig(log); err != nil {
				return err
			}
			service, err := scheduler.New(cfg)
			if err != nil {
				return err
			}
			return shared.Run(ctx, log, service)
		},
	}.Cobra()
}
