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
		set.BoolVar(&cfg.ServiceProxy, "service-proxy", true, "lead traffic for Services to their endpoints by nftables; switch it off to bring kube-proxy or a replacement of it")
		set.StringSliceVar(&cfg.NodePortAddresses, "nodeport-addresses", nil, "ranges of the node's addresses at which NodePorts are open, or primary for the node's own address; when empty, primary")
		set.StringVar(&cfg.ProxyHealthAddress, "proxy-healthz-bind-address", nodeagent.DefaultProxyHealthAddress, "HOST:PORT at which load balancers ask whether the node serves Services; when empty, nowhere")
		set.BoolVar(&cfg.DNS, "dns", true, "answer DNS questions of the node's pods; switch it off to bring CoreDNS or another server, and name it with --cluster-dns")
		set.StringVar(&cfg.LocalAddress, "local-address", nodeagent.DefaultLocalAddress, "address, free on the node, that the node gives its loopback interface: pods find the DNS server there and, where they cannot reach the apiservers, the API")
		set.StringToStringVar(&cfg.StubDomains, "dns-stub-domains", nil, "DNS servers for names in domains of others, DOMAIN=ADDRESS[:PORT],...")
	})
}
