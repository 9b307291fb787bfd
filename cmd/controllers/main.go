// Command controllers drives the current state towards the desired one.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/controllers"
)

// version is set by the linker.
var version = "unknown"

func main() {
	shared := flags.NewService("controllers")
	os.Exit(daemon.Main(daemon.Command{
		Use: "controllers", Short: "Drives the current state towards the desired one", Version: version,
		Flags: func(set *pflag.FlagSet) { shared.Bus(set); shared.API(set, client.CarrierHTTP, "127.0.0.1:10257") },
		Run: func(ctx context.Context, log *slog.Logger) error {
			api, err := shared.APIConfig(log)
			if err != nil {
				return err
			}
			service, err := controllers.New(controllers.Config{
				API: api, Bus: shared.BusConfig(log), Carrier: shared.Carrier(), Logger: log, Registerer: shared.Metrics(), Trace: shared.Trace(),
			})
			if err != nil {
				return err
			}
			return shared.Run(ctx, log, service)
		},
	}.Cobra()))
}
