package rules

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// endpoint is an endpoint of one Service port.
type endpoint struct {
	to                          netip.AddrPort
	local                       bool
	ready, serving, terminating bool
	zones, nodes                []string
}

// portKey names a port of a Service, and matches it to the ports of EndpointSlices.
type portKey struct {
	name     string
	protocol ruleset.Protocol
}

// gather returns the endpoints of each port, sorted by address, from the EndpointSlices of one
// Service. It adds to refused.
func gather(f ruleset.Family, n *Node, sliceList []*discoveryv1.EndpointSlice, refused *refusals) map[portKey][]endpoint {
	found := make(map[portKey]map[netip.AddrPort]endpoint)
	for _, slice := range sorted(sliceList) {
		_, headless := slice.Labels[corev1.IsHeadlessService]
		if string(slice.AddressType) != f.String() || headless || foreign(slice.Labels) {
			continue
		}
		usable := usableEndpoints(f, n, slice, refused)
		for _, port := range slice.Ports {
			key, number, ok := portOf(port)
			if !ok {
				continue
			}
			if found[key] == nil {
				found[key] = make(map[netip.AddrPort]endpoint)
			}
			for _, ep := range usable {
				ep.to = netip.AddrPortFrom(ep.to.Addr(), number)
				// A pod may have the address of one that still terminates: the newer one counts.
				if _, exists := found[key][ep.to]; !exists || !ep.terminating {
					found[key][ep.to] = ep
				}
			}
		}
	}
	return flatten(found, refused)
}

func flatten(found map[portKey]map[netip.AddrPort]endpoint, refused *refusals) map[portKey][]endpoint {
	byPort := make(map[portKey][]endpoint, len(found))
	for key, endpoints := range found {
		list := make([]endpoint, 0, len(endpoints))
		for _, ep := range endpoints {
			list = append(list, ep)
		}
		slices.SortFunc(list, func(a, b endpoint) int { return a.to.Compare(b.to) })
		if len(list) > maxEndpoints {
			refused.add("", ReasonTooManyEndpoints, "a port has %d endpoints; %d of them get no rules", len(list), len(list)-maxEndpoints)
			list = list[:maxEndpoints]
		}
		byPort[key] = list
	}
	return byPort
}

// usableEndpoints returns the endpoints of a slice that are not refused, with port 0.
func usableEndpoints(f ruleset.Family, n *Node, slice *discoveryv1.EndpointSlice, refused *refusals) []endpoint {
	usable := make([]endpoint, 0, len(slice.Endpoints))
	for i := range slice.Endpoints {
		ep := &slice.Endpoints[i]
		if len(ep.Addresses) == 0 {
			continue
		}
		// As with kube-proxy, only the first address counts.
		addr, ok := parseAddr(ep.Addresses[0])
		if !ok || !f.Is(addr) {
			refused.add(slice.Name, ReasonEndpointRefused, "endpoint address %.64q is no %s address", ep.Addresses[0], f)
			continue
		}
		if why := special(addr); why != "" {
			refused.add(slice.Name, ReasonEndpointRefused, "endpoint address %s is %s", addr, why)
			continue
		}
		usable = append(usable, endpointOf(n, addr, ep))
	}
	return usable
}

func endpointOf(n *Node, addr netip.Addr, ep *discoveryv1.Endpoint) endpoint {
	e := endpoint{
		to:          netip.AddrPortFrom(addr, 0),
		local:       n.Name != "" && ep.NodeName != nil && *ep.NodeName == n.Name,
		ready:       ep.Conditions.Ready == nil || *ep.Conditions.Ready,
		serving:     ep.Conditions.Serving == nil || *ep.Conditions.Serving,
		terminating: ep.Conditions.Terminating != nil && *ep.Conditions.Terminating,
	}
	if ep.Hints != nil {
		for _, zone := range ep.Hints.ForZones {
			e.zones = append(e.zones, zone.Name)
		}
		for _, node := range ep.Hints.ForNodes {
			e.nodes = append(e.nodes, node.Name)
		}
	}
	return e
}

// portOf returns a slice's port. It reports false for one without a name or a number.
func portOf(port discoveryv1.EndpointPort) (portKey, uint16, bool) {
	if port.Name == nil || port.Port == nil || *port.Port < 1 || *port.Port > 65535 {
		return portKey{}, 0, false
	}
	protocol := ruleset.TCP
	if port.Protocol != nil {
		var ok bool
		if protocol, ok = ruleset.ParseProtocol(*port.Protocol); !ok {
			return portKey{}, 0, false
		}
	}
	return portKey{*port.Name, protocol}, uint16(*port.Port), true
}

// foreign reports whether an object's labels hand it to another proxy.
func foreign(labels map[string]string) bool {
	_, other := labels[labelServiceProxyName]
	return other
}

// sorted returns the slices by name, so that equal input has equal rules.
func sorted(list []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
	return list
}
