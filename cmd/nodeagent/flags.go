package main

import (
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/nodeagent"
)

func nodeFlags(set *pflag.FlagSet, cfg *nodeagent.Config, joinOnly *bool) {
	daemon.Group(set, "Node", func(set *pflag.FlagSet) { declareNode(set, cfg, joinOnly) })
	daemon.Group(set, "Pod", func(set *pflag.FlagSet) {
		set.IntVar(&cfg.MaxPods, "max-pods", nodeagent.DefaultMaxPods, "how many pods the node takes")
		set.StringSliceVar(&cfg.AllowedUnsafeSysctls, "allowed-unsafe-sysctls", nil, "kernel parameters that pods may set beside the safe ones; a name may end in *")
		set.DurationVar(&cfg.ShutdownGracePeriod, "shutdown-grace-period", 0, "how long pods may take to end when the agent is told to; 0 leaves them running for the next agent")
		set.DurationVar(&cfg.ShutdownGracePeriodCriticalPods, "shutdown-grace-period-critical-pods", 0, "how much of that, at its end, is for pods that the system needs")
		set.StringSliceVar(&cfg.ClusterDNS, "cluster-dns", nil, "name servers of pods with dnsPolicy ClusterFirst")
		set.StringVar(&cfg.ClusterDomain, "cluster-domain", "cluster.local", "DNS domain of Services")
	})
}

func declareNode(set *pflag.FlagSet, cfg *nodeagent.Config, joinOnly *bool) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = ""
	}
	set.StringVar(&cfg.NodeName, "node-name", strings.ToLower(hostname), "name of the Node; the host's when not given")
	set.StringVar(&cfg.Bootstrap, "bootstrap-kubeconfig", "", "kubeconfig with a bootstrap token, in place of --kubeconfig: the agent joins by it, and keeps a client certificate of its own in the folder pki of its data folder")
	set.BoolVar(joinOnly, "join-only", false, "obtain the node's certificate, write the bootstrap kubeconfig without its token to pki/cluster.kubeconfig in the data folder, and end")
	set.StringVar(&cfg.NodeIP, "node-ip", "", "address of the node; that of the default route when empty")
	set.StringVar(&cfg.Runtime.Endpoint, "runtime", nodeagent.DefaultContainerd, "CRI socket, or \"simulated\" for a runtime that starts nothing")
	set.StringVar(&cfg.DataDir, "data-dir", "/var/lib/garboard/nodeagent", "folder of pods' volumes and logs")
	set.StringToStringVar(&cfg.Labels, "node-labels", nil, "labels of the Node, KEY=VALUE,...")
}

// reach says how the agent reaches the apiserver: as an identity that it is given, or by one that it
// gets for itself.
func reach(cfg *nodeagent.Config, shared *flags.Service, log *slog.Logger) (err error) {
	if cfg.Bootstrap != "" {
		cfg.APIServers = shared.APIServers()
		return nil
	}
	cfg.API, err = shared.APIConfig(log)
	return err
}
