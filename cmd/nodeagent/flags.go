package main

import (
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/nodeagent"
)

func nodeFlags(set *pflag.FlagSet, cfg *nodeagent.Config) {
	daemon.Group(set, "Node", func(set *pflag.FlagSet) { declareNode(set, cfg) })
	daemon.Group(set, "Pod", func(set *pflag.FlagSet) {
		set.IntVar(&cfg.MaxPods, "max-pods", nodeagent.DefaultMaxPods, "how many pods the node takes")
		set.StringSliceVar(&cfg.ClusterDNS, "cluster-dns", nil, "name servers of pods with dnsPolicy ClusterFirst")
		set.StringVar(&cfg.ClusterDomain, "cluster-domain", "cluster.local", "DNS domain of Services")
	})
}

func declareNode(set *pflag.FlagSet, cfg *nodeagent.Config) {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = ""
	}
	set.StringVar(&cfg.NodeName, "node-name", strings.ToLower(hostname), "name of the Node; the host's when not given")
	set.StringVar(&cfg.NodeIP, "node-ip", "", "address of the node; that of the default route when empty")
	set.StringVar(&cfg.Runtime.Endpoint, "runtime", nodeagent.DefaultContainerd, "CRI socket, or \"simulated\" for a runtime that starts nothing")
	set.StringVar(&cfg.DataDir, "data-dir", "/var/lib/garboard/nodeagent", "folder of pods' volumes and logs")
	set.StringToStringVar(&cfg.Labels, "node-labels", nil, "labels of the Node, KEY=VALUE,...")
}
