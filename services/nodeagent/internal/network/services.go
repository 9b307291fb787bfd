package network

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/apitunnel"
	"github.com/garboard/garboard/services/nodeagent/internal/podnetwork"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy"
)

// apiPort is the port of LocalAddress at which pods find the API where they cannot reach the apiservers.
const apiPort = 6443

// runProxy runs the proxy of Services, and the tunnel that stands for the apiservers where there is no route to
// them.
func (n *Network) runProxy(ctx context.Context, group *errgroup.Group, factory *informer.Factory) error {
	ranges := informer.For[*networkingv1.ServiceCIDR](factory)
	local := map[types.NamespacedName]func() netip.AddrPort{}
	if n.cfg.DNS.On {
		local[types.NamespacedName{Namespace: nodeapi.DNSServiceNamespace, Name: nodeapi.DNSService}] = func() netip.AddrPort {
			return netip.AddrPortFrom(n.cfg.LocalAddress, nodeapi.DNSPort)
		}
	}
	tunnel, end, err := n.tunnel(ctx, factory)
	if err != nil {
		return err
	}
	if tunnel != nil {
		local[types.NamespacedName{Namespace: "default", Name: "kubernetes"}] = tunnel.Address
	}
	told := map[netip.Prefix]bool{}
	services, err := proxy.New(proxy.Config{
		Factory: factory, NodeName: n.cfg.NodeName, NodeIPs: n.addresses(),
		Zone:              func() string { return n.cfg.Node().Labels[corev1.LabelTopologyZone] },
		PodCIDRs:          n.podCIDRs,
		ServiceCIDRs:      func() []netip.Prefix { return n.serviceCIDRs(ranges, told) },
		NodePortAddresses: n.cfg.Proxy.NodePortAddresses, HealthAddress: n.cfg.Proxy.HealthAddress, Local: local,
		Events: n.cfg.Events, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
	if err != nil {
		end()
		return err
	}
	n.runs(proxyPart, now(services.Ready))
	group.Go(func() error { return services.Run(ctx) })
	if tunnel != nil {
		group.Go(func() error {
			defer end()
			return tunnel.Run(ctx, services.NodeChanged)
		})
	}
	return nil
}

// tunnel returns the tunnel to the API; nil if the parts are not connected with the bus. The caller must call end.
func (n *Network) tunnel(ctx context.Context, factory *informer.Factory) (tunnel *apitunnel.Tunnel, end func(), err error) {
	conn := n.cfg.Shell.Conn()
	if conn == nil {
		return nil, func() {}, nil
	}
	transport, err := bushttp.New(context.WithoutCancel(ctx), bushttp.Config{Conn: conn, Logger: n.cfg.Logger})
	if err != nil {
		return nil, nil, fmt.Errorf("starting the tunnel to the API: %w", err)
	}
	return apitunnel.New(apitunnel.Config{
		Listen: netip.AddrPortFrom(n.cfg.LocalAddress, apiPort), Factory: factory, Open: apitunnel.Over(transport, n.cfg.TokenFile),
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	}), transport.Close, nil
}

// addresses returns the node's address and, if the machine has one, an address of the other IP family, in which Services
// are then served, too.
func (n *Network) addresses() []netip.Addr {
	own := []netip.Addr{n.cfg.Address}
	found, err := podnetwork.Addresses()
	if err != nil {
		return own
	}
	for _, network := range found {
		if address := network.Addr(); address.IsGlobalUnicast() && address.Is4() != n.cfg.Address.Is4() {
			return append(own, address)
		}
	}
	return own
}

// podCIDRs returns the ranges of the node's pods.
func (n *Network) podCIDRs() []netip.Prefix {
	n.mu.Lock()
	pods := n.pods
	n.mu.Unlock()
	if pods != nil {
		return pods.CIDRs()
	}
	return prefixes(n.cfg.Node().Spec.PodCIDRs)
}

// serviceCIDRs returns the ranges of cluster IPs, of which packets to those that no Service has are dropped. A
// range that overlaps a network of this machine is left out, and told of once: the node would lose its way there.
func (n *Network) serviceCIDRs(ranges informer.SharedInformer[*networkingv1.ServiceCIDR], told map[netip.Prefix]bool) []netip.Prefix {
	found, err := ranges.Lister().List(labels.Everything())
	if err != nil {
		return nil
	}
	networks, _ := podnetwork.Addresses() // Without, none overlaps.
	var usable []netip.Prefix
	for _, one := range found {
		for _, prefix := range prefixes(one.Spec.CIDRs) {
			overlaps := slices.IndexFunc(networks, func(network netip.Prefix) bool { return network.Overlaps(prefix) })
			if overlaps < 0 {
				usable = append(usable, prefix)
				continue
			}
			if !told[prefix] {
				told[prefix] = true
				message := fmt.Sprintf("the range of Services %s overlaps %s, a network of this node: addresses that both have lead to Services",
					prefix, networks[overlaps].Masked())
				n.cfg.Logger.Warn("a range of Services overlaps a network of this node", "range", prefix, "network", networks[overlaps].Masked())
				n.cfg.Events(n.cfg.Node(), corev1.EventTypeWarning, "ServiceCIDROverlapsNode", message)
			}
		}
	}
	return usable
}
