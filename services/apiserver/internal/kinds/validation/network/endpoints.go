package network

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Kubernetes' limits for endpoint slices.
const (
	maxEndpoints = 1000
	maxPorts     = 20000
	maxAddresses = 100
	maxTopology  = 16
	maxHints     = 8
)

// Endpoints validates endpoints.
func Endpoints(e *corev1.Endpoints) field.ErrorList { return endpoints(e, nil) }

// EndpointsUpdate validates an update of endpoints.
func EndpointsUpdate(e, old *corev1.Endpoints) field.ErrorList {
	var had []string
	for _, subset := range old.Subsets {
		for _, addresses := range [][]corev1.EndpointAddress{subset.Addresses, subset.NotReadyAddresses} {
			for _, address := range addresses {
				had = append(had, address.IP)
			}
		}
	}
	return endpoints(e, had)
}

func endpoints(e *corev1.Endpoints, had []string) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&e.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	for i := range e.Subsets {
		subset, at := &e.Subsets[i], field.NewPath("subsets").Index(i)
		if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(at, "must specify `addresses` or `notReadyAddresses`"))
		}
		for n := range subset.Addresses {
			errs = append(errs, endpointAddress(&subset.Addresses[n], at.Child("addresses").Index(n), had)...)
		}
		for n := range subset.NotReadyAddresses {
			errs = append(errs, endpointAddress(&subset.NotReadyAddresses[n], at.Child("notReadyAddresses").Index(n), had)...)
		}
		for n := range subset.Ports {
			errs = append(errs, endpointPort(&subset.Ports[n], len(subset.Ports) > 1, at.Child("ports").Index(n))...)
		}
	}
	return errs
}

func endpointAddress(a *corev1.EndpointAddress, path *field.Path, had []string) field.ErrorList {
	errs := ip(path.Child("ip"), a.IP, had)
	if a.Hostname != "" {
		errs = append(errs, invalid(path.Child("hostname"), a.Hostname, validation.IsDNS1123Label(a.Hostname))...)
	}
	errs = append(errs, nodeName(path.Child("nodeName"), a.NodeName)...)
	return append(errs, ordinaryIP(path.Child("ip"), a.IP)...)
}

func endpointPort(p *corev1.EndpointPort, named bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p.Name != "" {
		errs = append(errs, invalid(path.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
	} else if named {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	errs = append(errs, invalid(path.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
	errs = append(errs, oneOf(path.Child("protocol"), p.Protocol, protocols()...)...)
	return append(errs, appProtocol(path.Child("appProtocol"), p.AppProtocol)...)
}

func appProtocol(path *field.Path, name *string) field.ErrorList {
	if name == nil {
		return nil
	}
	return invalid(path, *name, validation.IsQualifiedName(*name))
}

// EndpointSlice validates an endpoint slice.
func EndpointSlice(s *discoveryv1.EndpointSlice) field.ErrorList { return endpointSlice(s, nil) }

// EndpointSliceUpdate validates an update of an endpoint slice, whose address type is immutable.
func EndpointSliceUpdate(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	var had []string
	for i := range old.Endpoints {
		had = append(had, old.Endpoints[i].Addresses...)
	}
	return append(endpointSlice(s, had), apivalidation.ValidateImmutableField(s.AddressType, old.AddressType, field.NewPath("addressType"))...)
}

func endpointSlice(s *discoveryv1.EndpointSlice, had []string) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, oneOf(field.NewPath("addressType"), s.AddressType,
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)...)
	path := field.NewPath("endpoints")
	if len(s.Endpoints) > maxEndpoints {
		errs = append(errs, field.TooMany(path, len(s.Endpoints), maxEndpoints))
	} else {
		for i := range s.Endpoints {
			errs = append(errs, sliceEndpoint(&s.Endpoints[i], s.AddressType, path.Index(i), had)...)
		}
	}
	return append(errs, slicePorts(s.Ports, field.NewPath("ports"))...)
}

func sliceEndpoint(e *discoveryv1.Endpoint, kind discoveryv1.AddressType, path *field.Path, had []string) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("addresses")
	switch {
	case len(e.Addresses) == 0:
		errs = append(errs, field.Required(at, "must contain at least 1 address"))
	case len(e.Addresses) > maxAddresses:
		errs = append(errs, field.TooMany(at, len(e.Addresses), maxAddresses))
	}
	for i, address := range e.Addresses {
		errs = append(errs, sliceAddress(address, kind, at.Index(i), had)...)
	}
	errs = append(errs, nodeName(path.Child("nodeName"), e.NodeName)...)
	topology := path.Child("deprecatedTopology")
	if len(e.DeprecatedTopology) > maxTopology {
		errs = append(errs, field.TooMany(topology, len(e.DeprecatedTopology), maxTopology))
	}
	errs = append(errs, metav1validation.ValidateLabels(e.DeprecatedTopology, topology)...)
	if e.Hostname != nil {
		errs = append(errs, invalid(path.Child("hostname"), *e.Hostname, validation.IsDNS1123Label(*e.Hostname))...)
	}
	return append(errs, hints(e.Hints, path.Child("hints"))...)
}

func sliceAddress(address string, kind discoveryv1.AddressType, path *field.Path, had []string) field.ErrorList {
	var errs field.ErrorList
	switch kind {
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path, address)
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
		errs = ip(path, address, had)
	default:
		return nil
	}
	if len(errs) == 0 && netutils.IsIPv6String(address) != (kind == discoveryv1.AddressTypeIPv6) {
		errs = append(errs, field.Invalid(path, address, fmt.Sprintf("must be an %s address", kind)))
	}
	if len(errs) == 0 {
		errs = ordinaryIP(path, address)
	}
	return errs
}

func hints(h *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	var zones, nodes []string
	for _, zone := range h.ForZones {
		zones = append(zones, zone.Name)
	}
	for _, node := range h.ForNodes {
		nodes = append(nodes, node.Name)
	}
	errs := hinted(zones, path.Child("forZones"), validation.IsValidLabelValue)
	return append(errs, hinted(nodes, path.Child("forNodes"), func(name string) []string {
		return apivalidation.NameIsDNSSubdomain(name, false)
	})...)
}

func hinted(names []string, path *field.Path, check func(string) []string) field.ErrorList {
	if len(names) > maxHints {
		return field.ErrorList{field.TooMany(path, len(names), maxHints)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, name := range names {
		at := path.Index(i).Child("name")
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(at, name))
		}
		seen.Insert(name)
		errs = append(errs, invalid(at, name, check(name))...)
	}
	return errs
}

func slicePorts(ports []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if len(ports) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(ports), maxPorts)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, port := range ports {
		at := path.Index(i)
		name := ""
		if port.Name != nil {
			name = *port.Name
		}
		if name != "" {
			errs = append(errs, invalid(at.Child("name"), name, validation.IsDNS1123Label(name))...)
		}
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		seen.Insert(name)
		if port.Protocol == nil {
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		} else if p := *port.Protocol; p != corev1.ProtocolTCP && p != corev1.ProtocolUDP && p != corev1.ProtocolSCTP {
			errs = append(errs, field.NotSupported(at.Child("protocol"), p, protocols()))
		}
		errs = append(errs, appProtocol(at.Child("appProtocol"), port.AppProtocol)...)
	}
	return errs
}
