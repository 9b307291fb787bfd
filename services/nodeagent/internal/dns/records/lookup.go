package records

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// Answer is what the zone knows of a name and a type. The caller must not change it.
type Answer struct {
	// Missing reports whether the name does not exist. If it exists and no field is set, it has no
	// records of the type.
	Missing bool
	// Addresses are those of A or AAAA records.
	Addresses []netip.Addr
	// Services are SRV records.
	Services []Service
	// Alias is the target of a CNAME record, in wire form. The answer for an address goes on there.
	Alias string
	// Names are the targets of NS or PTR records, in wire form.
	Names []string
	// Text is that of a TXT record.
	Text string
	// Authority reports whether the SOA record was asked for.
	Authority bool
}

// Empty reports whether the answer has no records.
func (a *Answer) Empty() bool {
	return len(a.Addresses)+len(a.Services)+len(a.Names) == 0 && a.Alias == "" && a.Text == "" && !a.Authority
}

// Service is an SRV record, with the addresses of its target.
type Service struct {
	Weight, Port uint16
	// Target is in wire form.
	Target    string
	Addresses []netip.Addr
}

// Version is the version of the DNS specification that the zone follows.
const Version = "1.1.0"

// VersionTTL is how long the TXT record with the version holds, in seconds.
const VersionTTL = 28800

// Labels of the zone.
const (
	services = "svc"
	pods     = "pod"
	version  = "dns-version"
	servers  = "ns"
	ofDNS    = "dns"
)

// Lookup returns what a name in the zone has. It reports whether the name is in the zone. The
// server's own addresses are those of ns.dns.<zone>.
func (z *Zone) Lookup(name *wire.Name, kind uint16, own []netip.Addr) (Answer, bool) {
	labels, ok := name.Below(&z.domain)
	if !ok {
		return Answer{}, false
	}
	if labels == 0 {
		return z.apex(kind), true
	}
	switch last := string(name.Label(labels - 1)); {
	case last == services:
		return z.inServices(name, labels-1, kind), true
	case last == pods:
		return z.inPods(name, labels-1, kind), true
	case last == version && labels == 1 && kind == dns.TypeTXT:
		return Answer{Text: Version}, true
	case last == ofDNS && labels == 2 && string(name.Label(0)) == servers:
		v4, v6 := split(own)
		return ofAddresses(kind, v4, v6), true
	}
	return Answer{Missing: true}, true
}

// apex returns what the zone itself has.
func (z *Zone) apex(kind uint16) Answer {
	switch kind {
	case dns.TypeSOA:
		return Answer{Authority: true}
	case dns.TypeNS:
		return Answer{Names: []string{"\x02ns\x03dns" + z.domain.Wire()}}
	}
	return Answer{}
}

// ofAddresses returns the addresses of the asked family.
func ofAddresses(kind uint16, v4, v6 []netip.Addr) Answer {
	switch kind {
	case dns.TypeA:
		return Answer{Addresses: v4}
	case dns.TypeAAAA:
		return Answer{Addresses: v6}
	}
	return Answer{}
}

func split(addrs []netip.Addr) (v4, v6 []netip.Addr) {
	for _, addr := range addrs {
		if addr.Is4() {
			v4 = append(v4, addr)
		} else {
			v6 = append(v6, addr)
		}
	}
	return v4, v6
}

// inServices looks up a name below svc.<zone>, of which it gets the number of labels before that.
func (z *Zone) inServices(name *wire.Name, labels int, kind uint16) Answer {
	if labels > 4 {
		return Answer{Missing: true}
	}
	z.mu.RLock()
	defer z.mu.RUnlock()
	if labels == 0 {
		return Answer{}
	}
	if labels == 1 {
		return Answer{Missing: z.namespaces[string(name.Label(0))] == 0}
	}
	g := z.groups[string(name.From(labels-2, labels))]
	if g == nil || !g.built.exists {
		return Answer{Missing: true}
	}
	switch labels {
	case 2:
		return z.ofService(g.built, "", "", kind)
	case 3:
		return z.ofEndpoint(g.built, name.Label(0), kind)
	}
	return z.ofService(g.built, bare(name.Label(0)), bare(name.Label(1)), kind)
}

// bare returns a label without its underscore.
func bare(label []byte) string {
	if len(label) > 0 && label[0] == '_' {
		label = label[1:]
	}
	return string(label)
}

// ofService returns what a Service has, or those of its endpoints that have a port.
func (z *Zone) ofService(s *service, port, protocol string, kind uint16) Answer {
	switch {
	case s.isExternal:
		if s.external == "" || port != "" || protocol != "" {
			return Answer{Missing: true}
		}
		if kind == dns.TypeA || kind == dns.TypeAAAA || kind == dns.TypeCNAME {
			return Answer{Alias: s.external}
		}
		return Answer{}
	case s.headless:
		if port == "" && protocol == "" && kind != dns.TypeSRV {
			if len(s.v4)+len(s.v6) == 0 {
				return Answer{Missing: true}
			}
			return ofAddresses(kind, s.v4, s.v6)
		}
		return z.ofEndpoints(s, s.endpoints(), port, protocol, kind)
	}
	matching := 0
	for _, p := range s.ports {
		if p.matches(port, protocol) {
			matching++
		}
	}
	if matching == 0 {
		return Answer{Missing: true}
	}
	if kind != dns.TypeSRV {
		return ofAddresses(kind, s.v4, s.v6)
	}
	var answer Answer
	target := s.wire + z.suffix()
	for _, p := range s.ports {
		if p.matches(port, protocol) && p.number != portless && len(s.ips) > 0 {
			answer.Services = append(answer.Services, Service{
				Weight: weight(matching * len(s.ips)), Port: uint16(p.number), Target: target, Addresses: s.ips,
			})
		}
	}
	return answer
}

// suffix is what follows the wire form of a Service.
func (z *Zone) suffix() string { return "\x03" + services + z.domain.Wire() }

// weight returns the weight of each of n records, of which each should get the same part.
func weight(n int) uint16 { return uint16(max(100/n, 1)) }

// ofEndpoint returns what one endpoint of a Service has, by its name.
func (z *Zone) ofEndpoint(s *service, label []byte, kind uint16) Answer {
	if s.isExternal {
		return Answer{Missing: true}
	}
	return z.ofEndpoints(s, s.labelled(label), "", "", kind)
}

// served is an endpoint with one of its ports.
type served struct {
	endpoint
	number int32
}

// ofEndpoints returns what endpoints have, or those of them that have a port.
func (z *Zone) ofEndpoints(s *service, endpoints []endpoint, port, protocol string, kind uint16) Answer {
	var matching []served
	for _, e := range endpoints {
		for _, p := range e.ports {
			if p.matches(port, protocol) {
				matching = append(matching, served{e, p.number})
			}
		}
	}
	if len(matching) == 0 {
		return Answer{Missing: true}
	}
	if kind == dns.TypeSRV {
		return Answer{Services: z.targets(s, matching)}
	}
	some := make([]endpoint, 0, len(matching))
	for _, m := range matching {
		some = append(some, m.endpoint)
	}
	v4, v6 := addresses(some)
	return ofAddresses(kind, v4, v6)
}

// targets returns an SRV record for each name and port of endpoints.
func (z *Zone) targets(s *service, matching []served) []Service {
	type target struct {
		label string
		port  int32
	}
	suffix := s.wire + z.suffix()
	known := map[target]int{}
	var made []Service
	for _, m := range matching {
		if m.number == portless || len(m.label) > maxLabel {
			continue
		}
		at, ok := known[target{m.label, m.number}]
		if !ok {
			at = len(made)
			known[target{m.label, m.number}] = at
			made = append(made, Service{
				Weight: weight(len(matching)), Port: uint16(m.number), Target: string(rune(len(m.label))) + m.label + suffix,
			})
		}
		if !slices.Contains(made[at].Addresses, m.addr) {
			made[at].Addresses = append(made[at].Addresses, m.addr)
		}
	}
	return made
}

// maxLabel is the length of the longest label (RFC 1035), in bytes.
const maxLabel = 63

// inPods looks up a name below pod.<zone>, of which it gets the number of labels before that.
func (z *Zone) inPods(name *wire.Name, labels int, kind uint16) Answer {
	if labels == 0 {
		return Answer{}
	}
	z.mu.RLock()
	exists := z.namespaces[string(name.Label(labels-1))] > 0
	followed := z.followed
	z.mu.RUnlock()
	switch labels {
	case 1:
		return Answer{Missing: !exists}
	case 2, 3, 4: // CoreDNS, too, ignores labels before that of the pod.
		if addr, ok := podAddress(string(name.Label(labels - 2))); ok && (exists || !followed) {
			if addr.Is4() {
				return ofAddresses(kind, []netip.Addr{addr}, nil)
			}
			return ofAddresses(kind, nil, []netip.Addr{addr})
		}
	}
	return Answer{Missing: true}
}

// podAddress returns the address that the name of a pod contains.
func podAddress(label string) (netip.Addr, bool) {
	separator := ":"
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		separator = "."
	}
	addr, err := netip.ParseAddr(strings.ReplaceAll(label, "-", separator))
	return addr.Unmap(), err == nil && addr.Zone() == ""
}

// Reverse returns the names of the address that a name below in-addr.arpa or ip6.arpa stands for.
// Without any the zone knows nothing of the name.
func (z *Zone) Reverse(name *wire.Name) (names []string) {
	addr, ok := reverseAddress(name)
	if !ok {
		return nil
	}
	z.mu.RLock()
	defer z.mu.RUnlock()
	for _, r := range z.reverse[addr] {
		full := r.service + z.suffix()
		if r.label == "" {
			return []string{full} // The name of a Service goes before those of endpoints.
		}
		full = string(rune(len(r.label)&maxLabel)) + r.label + full
		if !slices.Contains(names, full) {
			names = append(names, full)
		}
	}
	return names
}
