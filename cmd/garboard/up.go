package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags/admission"
	"github.com/garboard/garboard/cmd/internal/flags/autoscaling"
	"github.com/garboard/garboard/cmd/internal/flags/enablement"
	"github.com/garboard/garboard/cmd/internal/flags/network"
	"github.com/garboard/garboard/cmd/internal/flags/nodelifecycle"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/controllers"
	"github.com/garboard/garboard/services/nodeagent"
	"github.com/garboard/garboard/services/standalone"
)

func upCommand() *cobra.Command {
	cfg := standalone.Config{Progress: os.Stdout, Program: os.Args[0], Version: version}
	return daemon.Command{
		Use: "up", Short: "Run the whole plane in this process, with embedded etcd and NATS",
		Version: version, LogLevel: "warn",
		Flags: func(flags *pflag.FlagSet) {
			upFlags(flags, &cfg)
			cfg.Flags = func() map[string]string { return daemon.Values(flags) }
		},
		Run: func(ctx context.Context, log *slog.Logger) error {
			cfg.Logger = log
			plane, err := standalone.New(cfg)
			if err != nil {
				return err
			}
			return plane.Run(ctx)
		},
	}.Cobra()
}

func upFlags(flags *pflag.FlagSet, cfg *standalone.Config) {
	daemon.Group(flags, "Plane", func(flags *pflag.FlagSet) {
		flags.StringVar(&cfg.DataDir, "data-dir", ".garboard", "directory of all persistent data, and of admin.kubeconfig")
		flags.StringVar(&cfg.Listen, "listen", "", "address of the API, HOST:PORT; when empty, "+standalone.DefaultListen+", and the same port at the address of this machine's default route, by which pods reach it")
		flags.StringVar(&cfg.ServiceCIDR, "service-cluster-ip-range", "", "range of service addresses, or two of different IP families separated by a comma; when empty, 10.96.0.0/12")
		flags.StringSliceVar(&cfg.ClusterCIDRs, "cluster-cidr", []string{"10.244.0.0/16"}, "range of pod addresses, or one of each IP family, of which nodes get theirs; when empty, they get none")
		flags.BoolVar(&cfg.DNSService, "dns-service", true, "create the Service kube-system/kube-dns at the tenth address of the service addresses, where node agents answer DNS questions")
		flags.StringVar(&cfg.NATSListen, "nats-listen", "", "address at which NATS accepts TLS connections from other programs, HOST:PORT, for example 127.0.0.1:4222; when empty, none")
		flags.StringVar((*string)(&cfg.Transport), "api-transport", "", "transport of the services' calls to the apiserver: http, nats, or auto (nats, and http while NATS is unavailable); when empty, auto for node agents and http for the others")
		daemon.Renamed(flags, "api-carrier", "api-transport")
	})
	daemon.Group(flags, "Controllers", func(flags *pflag.FlagSet) {
		flags.StringSliceVar(&cfg.Controllers, "controllers", []string{"*"}, controllers.ListUsage())
		flags.StringVar(&cfg.LocalPathClass, "local-path-storage-class", controllers.DefaultLocalPathClass, controllers.LocalPathClassUsage)
	})
	nodelifecycle.Flags(flags, &cfg.NodeLifecycle)
	autoscaling.Flags(flags, &cfg.Autoscaling, &cfg.MetricsServer)
	admission.Flags(flags, &cfg.Admission)
	enablement.Flags(flags, &cfg.Enablement)
	daemon.Group(flags, "Node", func(flags *pflag.FlagSet) {
		flags.IntVar(&cfg.Nodes, "nodes", 1, "number of node agents")
		flags.StringVar(&cfg.Runtime, "runtime", standalone.Auto, "container runtime: containerd, simulated (nothing is started), or auto (containerd if its socket answers, else simulated)")
		flags.StringVar(&cfg.ContainerdEndpoint, "containerd", nodeagent.DefaultContainerd, "containerd's CRI socket")
		flags.StringSliceVar(&cfg.AllowedUnsafeSysctls, "allowed-unsafe-sysctls", nil, "kernel parameters that pods may set beyond the safe ones; a name may end in *")
	})
	network.Flags(flags, &cfg.Network)
	daemon.Group(flags, "Simulated runtime", func(flags *pflag.FlagSet) {
		flags.DurationVar(&cfg.Simulated.StartDelay, "simulated-start-delay", 0, "time a simulated container takes to start")
		flags.DurationVar(&cfg.Simulated.RunFor, "simulated-run-for", 0, "time after which a simulated container exits; 0 for never")
		flags.Int32Var(&cfg.Simulated.ExitCode, "simulated-exit-code", 0, "exit code of simulated containers that exit")
	})
}
