package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

// interfaceAddresses returns the addresses of the system's interfaces.
func interfaceAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of the node's interfaces: %w", err)
	}
	var addrs []netip.Addr
	for _, a := range all {
		if network, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(network.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs, nil
}

// readNode returns the node as the rules need it.
func (p *Proxy) readNode() *rules.Node {
	n := &rules.Node{
		Name: p.cfg.NodeName, IPs: slices.Clone(p.cfg.NodeIPs), PodBridge: p.cfg.PodBridge, ClusterCIDRs: p.cfg.ClusterCIDRs,
		NodePortAddresses: p.cfg.NodePortAddresses,
	}
	for i, addr := range n.IPs {
		n.IPs[i] = addr.Unmap()
	}
	if p.cfg.Zone != nil {
		n.Zone = p.cfg.Zone()
	}
	if p.cfg.PodCIDRs != nil {
		n.PodCIDRs = slices.Clone(p.cfg.PodCIDRs())
	}
	if p.cfg.ServiceCIDRs != nil {
		n.ServiceCIDRs = slices.Clone(p.cfg.ServiceCIDRs())
	}
	// The addresses of interfaces come and go with pods, so they are read only where they count.
	if slices.ContainsFunc(n.NodePortAddresses, func(s string) bool { return strings.Contains(s, "/") }) {
		addrs, err := p.cfg.Addresses()
		if err != nil {
			p.cfg.Logger.Error("node ports keep the addresses that they have", "err", err)
			if p.node != nil {
				addrs = p.node.Present
			}
		}
		n.Present = addrs
	}
	return n
}

// refreshNode reads the node again. It reports whether the skeleton depends on what has changed, and
// whether the Services do.
func (p *Proxy) refreshNode() (skeleton, services bool) {
	before, now := p.node, p.readNode()
	if reflect.DeepEqual(before, now) {
		return false, false
	}
	p.node = now
	if before == nil {
		return true, true
	}
	old := *before
	old.Present = now.Present
	return true, !reflect.DeepEqual(&old, now)
}

// localAddress returns the address that replaces a Service's endpoints, if any.
func (p *Proxy) refreshLocal() {
	for name, address := range p.cfg.Local {
		if now := address(); now != p.local[name] {
			p.local[name] = now
			p.pending.mark(name, 0, nil)
		}
	}
}

// ownAddresses returns the addresses of a family that accept node ports.
func (p *Proxy) ownAddresses(f ruleset.Family) []netip.Addr {
	addrs, all := p.node.NodePortIPs(f)
	if !all {
		return addrs
	}
	present, err := p.cfg.Addresses()
	if err != nil {
		p.cfg.Logger.Debug("UDP connections to node ports may stay", "err", err)
	}
	return present
}
