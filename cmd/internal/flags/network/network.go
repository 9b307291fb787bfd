// Package network declares the flags of a node agent's network parts.
package network

import (
	"github.com/spf13/pflag"

	"github.com/garboard/garboard/libs/daemon"
	"github.com/garboard/garboard/services/nodeagent"
)

// Flags declares the flags, which set cfg.
func Flags(set *pflag.FlagSet, cfg *nodeagent.NetworkConfig) {
	daemon.Group(set, "Network", func(set *pflag.FlagSet) {
		set.BoolVar(&cfg.PodNetwork, "pod-network", true, "connect the node's pods with each other and with those of other nodes, by addresses from the Node's pod CIDRs; switch it off to bring a CNI network of your own")
		set.StringVar(&cfg.PodNetworkMode, "pod-network-mode", "auto", "how packets reach the pods of other nodes: auto (routes on the same link, VXLAN otherwise), routes or vxlan")
		set.StringVar(&cfg.CNIConfDir, "cni-conf-dir", nodeagent.DefaultCNIConfDir, "directory in which the container runtime looks for CNI configurations")
	})
}
