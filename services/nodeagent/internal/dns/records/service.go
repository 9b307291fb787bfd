package records

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// portless is the port of a Service or slice without ports: it has addresses, but no SRV records.
const portless = -1

// port is a port of a Service or of endpoints.
type port struct {
	// name and protocol are in lower case.
	name, protocol string
	number         int32
}

// matches reports whether a question for a port and a protocol means this one. Either may be empty.
func (p port) matches(name, protocol string) bool {
	return (name == "" || p.name == name) && (protocol == "" || p.protocol == protocol)
}

// endpoint is a ready endpoint of a Service, with one address.
type endpoint struct {
	addr netip.Addr
	// label is its name below the Service, in lower case.
	label string
	ports []port
}

// service is what the zone knows of one Service. It is never changed.
type service struct {
	// wire is "<service>.<namespace>" in wire form, without the root.
	wire string
	// exists reports whether there is a Service; there may be slices alone.
	exists bool
	// external is the name of which the Service is an alias, in wire form.
	external string
	// isExternal reports whether it is to be such a Service, with a valid name or not.
	isExternal bool
	headless   bool
	// timed reports whether the endpoints of a headless Service follow pods.
	timed bool
	ips   []netip.Addr
	ports []port
	// slices are its endpoints.
	slices []*slice
	// v4 and v6 are the addresses of the Service's own name, each once.
	v4, v6 []netip.Addr
}

// slice is what the zone knows of one EndpointSlice. It is never changed.
type slice struct {
	// endpoints are all ready ones, byLabel the same by their names.
	endpoints []endpoint
	byLabel   map[string][]endpoint
}

// fromService returns what the zone needs of a Service.
func fromService(s *corev1.Service) *service {
	made := &service{
		wire: key(s.Namespace, s.Name), exists: true,
		isExternal: s.Spec.Type == corev1.ServiceTypeExternalName,
		headless:   s.Spec.ClusterIP == corev1.ClusterIPNone,
	}
	if made.isExternal {
		made.external = externalName(s.Spec.ExternalName)
		return made
	}
	made.timed = made.headless && len(s.Spec.Selector) > 0
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 {
		ips = []string{s.Spec.ClusterIP}
	}
	for _, text := range ips {
		if addr, err := netip.ParseAddr(text); err == nil {
			made.ips = append(made.ips, addr)
		}
	}
	for _, p := range s.Spec.Ports {
		made.ports = append(made.ports, port{strings.ToLower(p.Name), strings.ToLower(string(p.Protocol)), p.Port})
	}
	if len(made.ports) == 0 {
		made.ports = []port{{number: portless}}
	}
	return made
}

// externalName returns the wire form of the name; the empty string if it is an address or no name.
func externalName(text string) string {
	if _, err := netip.ParseAddr(text); err == nil || text == "" {
		return ""
	}
	name, err := wire.ParseName(text)
	if err != nil {
		return ""
	}
	return name.Wire()
}

// fromSlice returns what the zone needs of a slice.
func fromSlice(s *discoveryv1.EndpointSlice) *slice {
	made := &slice{endpoints: readyOf(s)}
	made.byLabel = make(map[string][]endpoint, len(made.endpoints))
	for _, e := range made.endpoints {
		made.byLabel[e.label] = append(made.byLabel[e.label], e)
	}
	return made
}

// readyOf returns the ready endpoints of a slice.
func readyOf(s *discoveryv1.EndpointSlice) []endpoint {
	if s.AddressType == discoveryv1.AddressTypeFQDN {
		return nil // Deprecated, and nothing makes them.
	}
	ports := make([]port, 0, len(s.Ports))
	for _, p := range s.Ports {
		made := port{number: portless}
		if p.Name != nil {
			made.name = strings.ToLower(*p.Name)
		}
		if p.Protocol != nil {
			made.protocol = strings.ToLower(string(*p.Protocol))
		}
		if p.Port != nil {
			made.number = *p.Port
		}
		ports = append(ports, made)
	}
	if len(ports) == 0 {
		ports = append(ports, port{number: portless})
	}
	var made []endpoint
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for _, text := range e.Addresses {
			addr, err := netip.ParseAddr(text)
			if err != nil {
				continue
			}
			one := endpoint{addr: addr, ports: ports}
			if e.Hostname != nil && *e.Hostname != "" {
				one.label = strings.ToLower(*e.Hostname)
			} else {
				one.label = generated(text)
			}
			made = append(made, one)
		}
	}
	return made
}

// generated returns the name of an endpoint without a hostname, as CoreDNS makes it.
func generated(addr string) string {
	label := strings.NewReplacer(".", "-", ":", "-").Replace(addr)
	if strings.HasSuffix(label, "-") {
		label += "0" // A label must not end with a hyphen.
	}
	return strings.ToLower(label)
}

// with returns the Service with these endpoints, and what follows from them.
func (s *service) with(slices []*slice) *service {
	made := *s
	made.slices = slices
	if made.headless {
		made.v4, made.v6 = addresses(made.endpoints())
		return &made
	}
	for _, ip := range made.ips {
		if ip.Is4() {
			made.v4 = append(made.v4, ip)
		} else {
			made.v6 = append(made.v6, ip)
		}
	}
	return &made
}

// endpoints returns all ready endpoints.
func (s *service) endpoints() (all []endpoint) {
	for _, slice := range s.slices {
		all = append(all, slice.endpoints...)
	}
	return all
}

// labelled returns the ready endpoints with a name.
func (s *service) labelled(label []byte) (all []endpoint) {
	for _, slice := range s.slices {
		all = append(all, slice.byLabel[string(label)]...)
	}
	return all
}

// addresses returns the addresses of endpoints, by family, each once.
func addresses(endpoints []endpoint) (v4, v6 []netip.Addr) {
	for _, e := range endpoints {
		if e.addr.Is4() {
			v4 = append(v4, e.addr)
		} else {
			v6 = append(v6, e.addr)
		}
	}
	return unique(v4), unique(v6)
}

// unique returns the addresses in order, each once.
func unique(addrs []netip.Addr) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs)
}

// key returns "<service>.<namespace>" in wire form, without the root.
func key(namespace, name string) string {
	return strings.ToLower(string(rune(len(name)&0x3f)) + name + string(rune(len(namespace)&0x3f)) + namespace)
}
