// Command nodeagent runs the pods of one node.
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
	"github.com/garboard/garboard/services/nodeagent"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(daemon.Main(command())) }

func command() *cobra.Command {
	shared := flags.NewService("nodeagent", version)
	var cfg nodeagent.Config
	var joinOnly bool
	return daemon.Command{
		Use: "nodeagent", Short: "Runs the pods of one node", Version: version,
		Flags: func(set *pflag.FlagSet) {
			shared.Bus(set)
			shared.API(set, client.TransportAuto, "127.0.0.1:10248")
			nodeFlags(set, &cfg, &joinOnly)
		},
		Probe: shared.Probe,
		Run: func(ctx context.Context, log *slog.Logger) error {
			cfg.Service, cfg.Gatherer = shared.Config(log), shared.Gatherer()
			if err := reach(&cfg, shared, log); err != nil {
				return err
			}
			agent, err := nodeagent.New(cfg)
			if err != nil {
				return err
			}
			if joinOnly {
				ctx, joined := context.WithCancel(ctx)
				defer joined()
				return shared.Run(ctx, log, joining{Agent: agent, joined: joined})
			}
			return lifecycle.Run(ctx, log,
				lifecycle.Stage{Name: "memory", Run: daemon.ReturnMemory}, // The rest of the machine is for pods.
				lifecycle.Stage{Name: "agent", Run: func(ctx context.Context) error { return shared.Run(ctx, log, agent) }},
			)
		},
	}.Cobra()
}

// joining is an agent that only joins. Its health is served meanwhile.
type joining struct {
	*nodeagent.Agent
	joined context.CancelFunc
}

// Run returns when the node has joined, and has the process end then.
func (j joining) Run(ctx context.Context) error {
	if err := j.Join(ctx); err != nil {
		return err
	}
	j.joined()
	return nil
}
