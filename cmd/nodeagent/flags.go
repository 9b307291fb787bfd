package main

import (
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/cmd/internal/flags"
	"github.com/garboard/garboard/cmd/internal/flags/network"
	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/nodeagent"
)

func nodeFlags(set *pflag.FlagSet, cfg *nodeagent.Config, joinOnly *bool) {
	daemon.Group(set, "Node", func(set *pflag.FlagSet) { declareNode(set, cfg, joinOnly) })
	daemon.Group(set, "Kubelet API", func(set *pflag.FlagSet) {
		set.StringVar(&cfg.Listen, "listen", "", "HOST:PORT at which the agent serves the kubelet's API over TLS, such as :10250, to those whom the apiserver knows and allows; when empty, only apiservers reach it, over NATS")
		set.StringVar(&cfg.TLSCertFile, "tls-cert-file", "", "PEM file of the certificate of that port; when empty, the agent signs its own")
		set.StringVar(&cfg.TLSPrivateKeyFile, "tls-private-key-file", "", "PEM file of that certificate's key")
		set.StringVar(&cfg.ClientCAFile, "client-ca-file", "", "PEM file of the CAs whose client certificates name users at that port; when empty, only bearer tokens do")
		set.BoolVar(&cfg.SystemLogHandler, "enable-system-log-handler", true, "serve the files below /var/log to those who may read logs of nodes")
		set.BoolVar(&cfg.SystemLogQuery, "enable-system-log-query", false, "serve the logs of the node's services, too, from systemd's journal or /var/log")
	})
	network.Flags(set, &cfg.Network)
	daemon.Group(set, "Pod", func(set *pflag.FlagSet) {
		set.IntVar(&cfg.MaxPods, "max-pods", nodeagent.DefaultMaxPods, "maximum number of pods on the node")
		set.StringSliceVar(&cfg.AllowedUnsafeSysctls, "allowed-unsafe-sysctls", nil, "kernel parameters that pods may set beyond the safe ones; a name may end in *")
		set.DurationVar(&cfg.ShutdownGracePeriod, "shutdown-grace-period", 0, "time for pods to terminate when the agent is told to stop; 0 leaves them running for the next agent")
		set.DurationVar(&cfg.ShutdownGracePeriodCriticalPods, "shutdown-grace-period-critical-pods", 0, "part of that time, at its end, reserved for critical pods")
		set.StringSliceVar(&cfg.ClusterDNS, "cluster-dns", nil, "name servers of pods with dnsPolicy ClusterFirst")
		set.StringVar(&cfg.ClusterDomain, "cluster-domain", "cluster.local", "DNS domain of Services")
	})
}

func declareNode(set *pflag.FlagSet, cfg *nodeagent.Config, joinOnly *bool) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = ""
	}
	set.StringVar(&cfg.NodeName, "node-name", strings.ToLower(hostname), "name of the Node; the host name by default")
	set.StringVar(&cfg.Bootstrap, "bootstrap-kubeconfig", "", "kubeconfig with a bootstrap token, in place of --kubeconfig: the agent joins with it, and keeps its own client certificate in the folder pki of its data directory")
	set.StringSliceVar(&cfg.BootstrapServers, "nats-bootstrap-servers", nil, "URLs of NATS servers that take clients without a certificate, to join by; when empty, --nats-servers")
	set.BoolVar(joinOnly, "join-only", false, "obtain the node's certificate, write the bootstrap kubeconfig without its token to pki/cluster.kubeconfig in its data directory, and exit")
	set.StringVar(&cfg.NodeIP, "node-ip", "", "address of the node; when empty, that of the default route")
	set.StringVar(&cfg.Runtime.Endpoint, "runtime", nodeagent.DefaultContainerd, "CRI socket, or \"simulated\" for a runtime that starts nothing")
	set.StringVar(&cfg.DataDir, "data-dir", "/var/lib/garboard/nodeagent", "directory of the pods' volumes and logs")
	set.StringVar(&cfg.LocalVolumesDir, "local-volumes-dir", nodeagent.DefaultLocalVolumesDir, "directory of local-path volumes, which outlive pods; a relative path is below the data directory; when empty, the node has no such volumes")
	set.Int32Var(&cfg.NodeLeaseDurationSeconds, "node-lease-duration-seconds", nodeagent.DefaultNodeLeaseDurationSeconds, "seconds that a renewal of the node's Lease holds; it is renewed four times as often")
	set.StringToStringVar(&cfg.Labels, "node-labels", nil, "labels of the Node, KEY=VALUE,...")
}

// reach configures how the agent authenticates to the apiserver: by the identity in a kubeconfig,
// or by one that it obtains itself.
func reach(cfg *nodeagent.Config, shared *flags.Service, log *slog.Logger) (err error) {
	if cfg.Bootstrap != "" {
		cfg.APIServers = shared.APIServers()
		return nil
	}
	cfg.Service.API, err = shared.APIConfig(log)
	return err
}
