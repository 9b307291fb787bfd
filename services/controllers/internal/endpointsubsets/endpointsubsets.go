// Package endpointsubsets brings the subsets of Endpoints into a canonical form, in which equal sets of
// addresses and ports are equal (kubernetes, pkg/api/v1/endpoints).
package endpointsubsets

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// host tells addresses apart: pods of one node may share its address.
type host struct {
	ip  string
	uid types.UID
}

// port is a port, comparable by value.
type port struct {
	name     string
	number   int32
	protocol corev1.Protocol
	app      string
	hasApp   bool
	// none stands for the absence of ports.
	none bool
}

func (p port) endpointPort() corev1.EndpointPort {
	result := corev1.EndpointPort{Name: p.name, Port: p.number, Protocol: p.protocol}
	if p.hasApp {
		result.AppProtocol = &p.app
	}
	return result
}

func comparePorts(a, b corev1.EndpointPort) int {
	app := func(p corev1.EndpointPort) string {
		if p.AppProtocol == nil {
			return ""
		}
		return *p.AppProtocol
	}
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(app(a), app(b)))
}

// Repack returns the canonical form of subsets, which it does not change: hosts with the same ports are in
// one subset, each once, and all is sorted. A host that is both ready and not ready on a port is not
// ready.
func Repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	addresses := map[host]corev1.EndpointAddress{}
	byPort := map[port]map[host]bool{}
	add := func(p port, address corev1.EndpointAddress, ready bool) {
		h := host{ip: address.IP}
		if address.TargetRef != nil {
			h.uid = address.TargetRef.UID
		}
		if _, known := addresses[h]; !known {
			addresses[h] = address
		}
		if byPort[p] == nil {
			byPort[p] = map[host]bool{}
		}
		was, known := byPort[p][h]
		byPort[p][h] = ready && (was || !known)
	}
	for _, subset := range subsets {
		for _, p := range portsOf(subset) {
			for _, address := range subset.Addresses {
				add(p, address, true)
			}
			for _, address := range subset.NotReadyAddresses {
				add(p, address, false)
			}
		}
	}
	return join(addresses, byPort)
}

// portsOf returns the ports of a subset.
func portsOf(subset corev1.EndpointSubset) []port {
	if len(subset.Ports) == 0 {
		return []port{{none: true}}
	}
	ports := make([]port, 0, len(subset.Ports))
	for _, p := range subset.Ports {
		one := port{name: p.Name, number: p.Port, protocol: p.Protocol}
		if p.AppProtocol != nil {
			one.app, one.hasApp = *p.AppProtocol, true
		}
		ports = append(ports, one)
	}
	return ports
}

// join makes one subset of the ports that have the same hosts.
func join(addresses map[host]corev1.EndpointAddress, byPort map[port]map[host]bool) []corev1.EndpointSubset {
	byHosts := map[string]*corev1.EndpointSubset{}
	for p, hosts := range byPort {
		sorted := slices.SortedFunc(maps.Keys(hosts), func(a, b host) int {
			return cmp.Or(cmp.Compare(a.ip, b.ip), cmp.Compare(a.uid, b.uid))
		})
		var key strings.Builder
		for _, h := range sorted {
			fmt.Fprintf(&key, "%s %s %t,", h.ip, h.uid, hosts[h])
		}
		subset := byHosts[key.String()]
		if subset == nil {
			subset = &corev1.EndpointSubset{}
			byHosts[key.String()] = subset
			for _, h := range sorted {
				if hosts[h] {
					subset.Addresses = append(subset.Addresses, addresses[h])
				} else {
					subset.NotReadyAddresses = append(subset.NotReadyAddresses, addresses[h])
				}
			}
		}
		if !p.none {
			subset.Ports = append(subset.Ports, p.endpointPort())
		}
	}
	result := []corev1.EndpointSubset{}
	for _, subset := range byHosts {
		slices.SortFunc(subset.Ports, comparePorts)
		result = append(result, *subset)
	}
	slices.SortFunc(result, func(a, b corev1.EndpointSubset) int {
		return cmp.Or(slices.CompareFunc(a.Ports, b.Ports, comparePorts),
			slices.CompareFunc(a.Addresses, b.Addresses, compareAddresses),
			slices.CompareFunc(a.NotReadyAddresses, b.NotReadyAddresses, compareAddresses))
	})
	return result
}

func compareAddresses(a, b corev1.EndpointAddress) int {
	uid := func(address corev1.EndpointAddress) types.UID {
		if address.TargetRef == nil {
			return ""
		}
		return address.TargetRef.UID
	}
	return cmp.Or(cmp.Compare(a.IP, b.IP), cmp.Compare(uid(a), uid(b)))
}
