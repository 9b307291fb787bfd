// Command controllers drives the current state towards the desired one.
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
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/services/controllers"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(daemon.Main(command())) }

// leastGrowth is how much the heap may grow between two garbage collections, in bytes. A sixth of the CPU of a thousand
// pods was that of collections without it.
const leastGrowth = 64 << 20

func command() *cobra.Command {
	shared := flags.NewService("controllers", version)
	var cfg controllers.Config
	return daemon.Command{
		Use: "controllers", Short: "Drives the current state towards the desired one", Version: version,
		Flags: func(set *pflag.FlagSet) {
			shared.Bus(set)
			shared.API(set, client.TransportHTTP, "127.0.0.1:10257")
			flags.Election(set, &cfg.Election)
			controllerFlags(set, &cfg)
		},
		Probe: shared.Probe,
		Run: func(ctx context.Context, log *slog.Logger) (err error) {
			cfg.Service = shared.Config(log)
			if cfg.Service.API, err = shared.APIConfig(log); err != nil {
				return err
			}
			service, err := controllers.New(cfg)
			if err != nil {
				return err
			}
			return shared.Run(ctx, log, service, lifecycle.Stage{Name: "garbage collection", Run: daemon.CollectGarbage(leastGrowth)})
		},
	}.Cobra()
}
