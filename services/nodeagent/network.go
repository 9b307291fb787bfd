package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent/internal/agent"
	"github.com/garboard/garboard/services/nodeagent/internal/network"
	"github.com/garboard/garboard/services/nodeagent/internal/podnetwork"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy"
)

// NetworkConfig configures the network parts of a node agent. They need root, and have no effect under the
// simulated runtime.
type NetworkConfig struct {
	// PodNetwork gives pods addresses from the Node's pod CIDRs and connects them with those of other nodes.
	PodNetwork bool
	// PodNetworkMode is how: "auto" (routes on the same link, VXLAN otherwise), "routes" or "vxlan"; "auto" if
	// empty.
	PodNetworkMode string
	// CNIConfDir is the folder in which the container runtime looks for CNI configurations; DefaultCNIConfDir
	// if empty.
	CNIConfDir string
	// ServiceProxy leads traffic for Services to their endpoints, as kube-proxy does.
	ServiceProxy bool
	// NodePortAddresses are the ranges of the node's addresses at which NodePorts are open, or "primary" for its
	// own address; that if empty. (kube-proxy's nodePortAddresses.)
	NodePortAddresses []string
	// ProxyHealthAddress is the HOST:PORT at which load balancers ask whether the node serves Services, at /healthz
	// and /livez; nowhere if empty.
	ProxyHealthAddress string
	// DNS answers DNS questions of the node's pods, at LocalAddress and, if the node has the proxy, at the Service
	// kube-system/kube-dns. Pods with dnsPolicy ClusterFirst use it unless ClusterDNS is set.
	DNS bool
	// LocalAddress is an address, free on the node, that the node gives its loopback interface. Pods find the DNS
	// server there and, where they cannot reach the apiservers, the API; DefaultLocalAddress if empty.
	LocalAddress string
	// StubDomains are servers, HOST:PORT or HOST, for names in domains of others.
	StubDomains map[string]string
}

// DefaultLocalAddress is the usual LocalAddress.
const DefaultLocalAddress = "169.254.20.10"

// DefaultProxyHealthAddress is where load balancers usually ask whether a node serves Services.
const DefaultProxyHealthAddress = proxy.DefaultHealthAddress

// DefaultCNIConfDir is the folder in which container runtimes look for CNI configurations.
const DefaultCNIConfDir = podnetwork.DefaultConfDir

// complete sets defaults and returns what is wrong.
func (c *NetworkConfig) complete() error {
	if c.PodNetworkMode == "" {
		c.PodNetworkMode = string(podnetwork.Auto)
	}
	if c.CNIConfDir == "" {
		c.CNIConfDir = DefaultCNIConfDir
	}
	if c.LocalAddress == "" {
		c.LocalAddress = DefaultLocalAddress
	}
	address, err := netip.ParseAddr(c.LocalAddress)
	if err != nil || address.IsLoopback() || address.IsUnspecified() || address.IsMulticast() {
		return fmt.Errorf("the local address, %q, is not an address that pods can reach", c.LocalAddress)
	}
	if _, err := c.stubDomains(); err != nil {
		return err
	}
	faults := []error{podnetwork.Mode(c.PodNetworkMode).Check()}
	if !filepath.IsAbs(c.CNIConfDir) {
		faults = append(faults, fmt.Errorf("the folder of CNI configurations, %q, is not an absolute path", c.CNIConfDir))
	}
	return errors.Join(faults...)
}

// stubDomains returns the servers of StubDomains, one for each.
func (c *NetworkConfig) stubDomains() (map[string][]netip.AddrPort, error) {
	servers := map[string][]netip.AddrPort{}
	for domain, text := range c.StubDomains {
		server, err := netip.ParseAddrPort(text)
		if address, only := netip.ParseAddr(text); only == nil {
			server, err = netip.AddrPortFrom(address, nodeapi.DNSPort), nil
		}
		if err != nil {
			return nil, fmt.Errorf("the DNS server %q of the domain %s is not ADDRESS or ADDRESS:PORT", text, domain)
		}
		servers[domain] = append(servers[domain], server)
	}
	return servers, nil
}

// networkToken is the file of the token that the network parts present.
func (c *Config) networkToken() string { return filepath.Join(c.DataDir, "network", "token") }

// networkReach sets how the network parts reach the plane: as the agent does, and by their own token in place
// of the agent's credential. api and nats are how the agent does, without fail-over. The caller must call end.
func (a *Agent) networkReach(api *rest.Config, nats bus.Config) (end func(), err error) {
	own := rest.AnonymousClientConfig(api)
	own.BearerTokenFile, end = a.cfg.networkToken(), func() {}
	if len(a.cfg.APIServers) > 0 {
		if own, end, err = client.Failover(own, a.cfg.APIServers, a.cfg.Service.Logger); err != nil {
			return nil, err
		}
	}
	// NATS may want a certificate of everyone. The apiservers take the token for the client's credential.
	nats.Seed, nats.User, nats.Password, nats.Token, nats.TokenFile = nil, "", "", "", a.cfg.networkToken()
	nats.Registerer = nil // The agent's own connection is measured.
	a.network.Reach(own, nats, "")
	return end, nil
}

// newNetworkShell returns the shell of the network parts.
func newNetworkShell(cfg service.Config) *service.Shell {
	return service.New(cfg, service.Role{
		Name: report.NodeAgent, Component: "kube-proxy", Unready: "the network parts have not started yet",
	})
}

// assembleNetwork creates the network parts. The simulated runtime has none.
func (a *Agent) assembleNetwork() error {
	if a.simulated != nil {
		return nil
	}
	address, err := netip.ParseAddr(a.inner.Address())
	if err != nil {
		return fmt.Errorf("starting the network parts: the node's address: %w", err)
	}
	cfg, own := a.cfg.Service, &a.cfg.Network
	stubs, err := own.stubDomains()
	if err != nil {
		return err
	}
	a.parts = network.New(network.Config{
		NodeName: a.cfg.NodeName, Address: address.Unmap(), Client: a.shell.Client(), Node: a.inner.Node,
		TokenFile: a.cfg.networkToken(), Shell: a.network,
		PodNetwork: network.PodNetwork{On: own.PodNetwork, Mode: podnetwork.Mode(own.PodNetworkMode), CNIConfDir: own.CNIConfDir},
		Proxy:      network.Proxy{On: own.ServiceProxy, NodePortAddresses: own.NodePortAddresses, HealthAddress: own.ProxyHealthAddress},
		DNS: network.DNS{
			On: own.DNS, Domain: a.cfg.ClusterDomain,
			ResolverConfig: agent.ResolverConfig, StubDomains: stubs,
		},
		LocalAddress: netip.MustParseAddr(own.LocalAddress), PodNamespace: a.inner.PodNamespace, Events: a.inner.Event, Changed: a.inner.Poke,
		DataDir: filepath.Join(a.cfg.DataDir, "network"), Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	return nil
}

// networkConditions returns how to tell the Node's conditions about its network; nil under the simulated runtime.
func (a *Agent) networkConditions() func([]corev1.NodeCondition) ([]corev1.NodeCondition, []corev1.NodeConditionType) {
	if a.simulated != nil {
		return nil
	}
	return func(present []corev1.NodeCondition) ([]corev1.NodeCondition, []corev1.NodeConditionType) {
		return a.parts.Conditions(present) // They are there before the node is.
	}
}

// networkParts returns the stage that runs the network parts.
func (a *Agent) networkParts() lifecycle.Stage {
	if a.cfg.Runtime.Endpoint == SimulatedRuntime {
		return lifecycle.Stage{}
	}
	return lifecycle.Stage{Name: "network", Run: func(ctx context.Context) error { return a.parts.Run(ctx) }}
}

// nameServers returns the name servers of pods with dnsPolicy ClusterFirst.
func (c *Config) nameServers() []string {
	if len(c.ClusterDNS) == 0 && c.Network.DNS && c.Runtime.Endpoint != SimulatedRuntime {
		return []string{c.Network.LocalAddress}
	}
	return c.ClusterDNS
}
