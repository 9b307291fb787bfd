// Package network runs the network parts of a node agent: the pod network, the proxy of Services, and the DNS
// server. They share an identity of their own, a service account that may read Services, EndpointSlices and
// Nodes, and with it one connection and one set of informers. Each part can be switched off.
package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/nodeagent/internal/dns"
	"github.com/garboard/garboard/services/nodeagent/internal/networktoken"
	"github.com/garboard/garboard/services/nodeagent/internal/peers"
	"github.com/garboard/garboard/services/nodeagent/internal/podnetwork"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy"
)

// Config configures the parts of a node.
type Config struct {
	NodeName string
	// Address is the node's address.
	Address netip.Addr
	// Client acts as the node; it obtains the parts' token. Node returns the node's Node, without a UID until
	// it is registered.
	Client client.Interface
	Node   func() *corev1.Node
	// TokenFile is the file that holds the token, which Shell presents.
	TokenFile string
	// Shell connects the parts to the plane. Its connections are not open yet.
	Shell      *service.Shell
	PodNetwork PodNetwork
	Proxy      Proxy
	DNS        DNS
	// LocalAddress is where pods find the DNS server and, if they cannot reach the apiservers, the API: an address
	// that the node gives its loopback interface.
	LocalAddress netip.Addr
	// PodNamespace returns the namespace of the node's pod that has an address.
	PodNamespace func(netip.Addr) (namespace string, ok bool)
	// Events records an Event about an object.
	Events func(object runtime.Object, eventType, reason, message string)
	// Changed is called when Conditions may have changed.
	Changed    func()
	DataDir    string
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// PodNetwork configures how the node connects its pods; see package podnetwork.
type PodNetwork struct {
	On         bool
	Mode       podnetwork.Mode
	CNIConfDir string
}

// Proxy configures how the node leads traffic for Services to their endpoints; see package proxy.
type Proxy struct {
	On                bool
	NodePortAddresses []string
	HealthAddress     string
}

// DNS configures the node's DNS server; see package dns.
type DNS struct {
	On bool
	// Domain is the DNS domain of Services.
	Domain string
	// ResolverConfig is the path of the node's own resolver configuration.
	ResolverConfig string
	StubDomains    map[string][]netip.AddrPort
}

// Network is the network parts of a node.
type Network struct {
	cfg     Config
	started time.Time

	mu     sync.Mutex
	pods   *podnetwork.Network // nil if it is switched off, or not yet connected
	prober *peers.Prober       // the same
	// ready tells by part why it is not ready, and faults since when.
	ready  map[string]func() error
	faults map[string]fault
}

// New returns the parts. It starts nothing.
func New(cfg Config) *Network {
	n := &Network{cfg: cfg, started: time.Now(), ready: map[string]func() error{}, faults: map[string]fault{}}
	n.measure()
	return n
}

// Run runs the parts that are switched on until ctx ends, and removes what those that are switched off have left.
func (n *Network) Run(ctx context.Context) error {
	n.removeUnused(ctx)
	if !n.cfg.PodNetwork.On && !n.cfg.Proxy.On && !n.cfg.DNS.On {
		<-ctx.Done()
		return nil
	}
	tokens := networktoken.New(networktoken.Config{
		NodeName: n.cfg.NodeName, Client: n.cfg.Client, Node: func() types.UID { return n.cfg.Node().UID },
		Path: n.cfg.TokenFile, Logger: n.cfg.Logger,
	})
	if err := tokens.Obtain(ctx); err != nil {
		return nil // ctx has ended.
	}
	connections := n.cfg.Shell.Connections()
	if err := connections.Start(ctx); err != nil {
		return fmt.Errorf("connecting the network parts: %w", err)
	}
	err := n.run(ctx, tokens)
	return errors.Join(err, connections.End(context.WithoutCancel(ctx)))
}

// removeUnused removes what parts that are now switched off have left on the machine.
func (n *Network) removeUnused(ctx context.Context) {
	if !n.cfg.PodNetwork.On {
		n.report(ctx, "the pod network", podnetwork.Remove(ctx, n.cfg.PodNetwork.CNIConfDir, ""))
	}
	if !n.cfg.Proxy.On {
		n.report(ctx, "the rules of Services", proxy.Remove(""))
	}
	if !n.cfg.DNS.On && !n.cfg.Proxy.On {
		n.report(ctx, "the local address", removeAddress(n.cfg.LocalAddress))
	}
}

func (n *Network) report(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		n.cfg.Logger.Warn("removing what a switched off part of the network has left failed", "what", what, "err", err)
	}
}

func (n *Network) run(ctx context.Context, tokens *networktoken.Source) error {
	factory, err := n.informers()
	if err != nil {
		return err
	}
	n.cfg.Shell.Follow(factory)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return tokens.Run(ctx) })
	if err := n.runParts(ctx, group, factory); err != nil {
		group.Go(func() error { return err }) // It ends those that run already.
	}
	group.Go(func() error { return factory.Run(ctx) })
	return group.Wait()
}

// informers returns the factory of the parts' informers, which keep of Services and EndpointSlices what the parts read.
func (n *Network) informers() (*informer.Factory, error) {
	factory := n.cfg.Shell.NewInformers()
	if n.cfg.DNS.On || n.cfg.Proxy.On {
		if err := trim(factory); err != nil {
			return nil, fmt.Errorf("following Services: %w", err)
		}
	}
	return factory, nil
}

// runParts has the group run the parts that are switched on.
func (n *Network) runParts(ctx context.Context, group *errgroup.Group, factory *informer.Factory) error {
	if n.cfg.PodNetwork.On {
		pods := podnetwork.New(podnetwork.Config{
			NodeName: n.cfg.NodeName, Address: n.cfg.Address, Nodes: factory, Mode: n.cfg.PodNetwork.Mode, ConfDir: n.cfg.PodNetwork.CNIConfDir,
			DataDir: filepath.Join(n.cfg.DataDir, "cni"), Changed: n.cfg.Changed, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
			Event: func(eventType, reason, message string) { n.cfg.Events(n.cfg.Node(), eventType, reason, message) },
		})
		prober := peers.New(peers.Config{Peers: peersOf(pods), Changed: n.cfg.Changed, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer})
		n.mu.Lock()
		n.pods, n.prober = pods, prober
		n.mu.Unlock()
		n.runs(podNetworkPart, pods.Ready)
		group.Go(func() error { return pods.Run(ctx) })
		group.Go(func() error { return prober.Run(ctx) })
	}
	if n.cfg.DNS.On || n.cfg.Proxy.On {
		if err := addAddress(n.cfg.LocalAddress); err != nil {
			// The rest still works, for example where the agent is not root.
			n.cfg.Logger.Error("pods cannot reach this node's DNS server; run the node agent as root, or switch the part off (--dns=false)", "err", err)
			n.cfg.Events(n.cfg.Node(), corev1.EventTypeWarning, "LocalAddressMissing", err.Error())
		}
	}
	if n.cfg.DNS.On {
		server := n.dns(factory)
		n.runs(dnsPart, now(server.Ready))
		group.Go(func() error { return server.Run(ctx) })
	}
	if n.cfg.Proxy.On {
		return n.runProxy(ctx, group, factory)
	}
	return nil
}

// peersOf returns how to find the other nodes of a pod network.
func peersOf(pods *podnetwork.Network) func() ([]peers.Peer, bool) {
	return func() ([]peers.Peer, bool) {
		found, known := pods.Peers()
		list := make([]peers.Peer, len(found))
		for i := range found {
			list[i] = peers.Peer{Node: found[i].Node, Address: found[i].End()}
		}
		return list, known
	}
}

// dns returns the DNS server.
func (n *Network) dns(factory *informer.Factory) *dns.Server {
	return dns.New(dns.Config{
		Factory: factory, Domain: n.cfg.DNS.Domain, Listen: []netip.AddrPort{netip.AddrPortFrom(n.cfg.LocalAddress, nodeapi.DNSPort)},
		Clients: n.mayAsk, ResolverConfig: n.cfg.DNS.ResolverConfig, StubDomains: n.cfg.DNS.StubDomains, PodNamespace: n.cfg.PodNamespace,
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

// mayAsk reports whether an address may ask the DNS server: one of this node or of its pods.
func (n *Network) mayAsk(address netip.Addr) bool {
	if address.IsLoopback() || address == n.cfg.Address || address == n.cfg.LocalAddress {
		return true
	}
	if _, ok := n.cfg.PodNamespace(address); ok {
		return true
	}
	return slices.ContainsFunc(n.podCIDRs(), func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// prefixes returns those of some texts that are CIDRs.
func prefixes(texts []string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix.Masked())
		}
	}
	return all
}
