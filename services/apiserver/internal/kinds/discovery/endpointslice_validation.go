package discovery

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// Kubernetes' limits for endpoint slices.
const (
	maxEndpoints = 1000
	maxPorts     = 20000
	maxAddresses = 100
	maxTopology  = 16
	maxHints     = 8
)

// validateEndpointSlice validates an endpoint slice.
func validateEndpointSlice(s *discoveryv1.EndpointSlice) field.ErrorList {
	return append(allButEndpoints(s), sliceEndpoints(s)...)
}

// validateEndpointSliceUpdate validates an update of an endpoint slice, whose address type is immutable.
// Unchanged endpoints stay, even if they are invalid by now.
func validateEndpointSliceUpdate(s, old *discoveryv1.EndpointSlice) field.ErrorList {
	errs := append(allButEndpoints(s), apivalidation.ValidateImmutableField(s.AddressType, old.AddressType, field.NewPath("addressType"))...)
	if !apiequality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		errs = append(errs, sliceEndpoints(s)...)
	}
	return errs
}

func allButEndpoints(s *discoveryv1.EndpointSlice) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, network.OneOf(field.NewPath("addressType"), s.AddressType,
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)...)
	return append(errs, slicePorts(s.Ports, field.NewPath("ports"))...)
}

func sliceEndpoints(s *discoveryv1.EndpointSlice) field.ErrorList {
	path := field.NewPath("endpoints")
	if len(s.Endpoints) > maxEndpoints {
		return field.ErrorList{field.TooMany(path, len(s.Endpoints), maxEndpoints)}
	}
	var errs field.ErrorList
	for i := range s.Endpoints {
		errs = append(errs, sliceEndpoint(&s.Endpoints[i], s.AddressType, path.Index(i))...)
	}
	return errs
}

func sliceEndpoint(e *discoveryv1.Endpoint, kind discoveryv1.AddressType, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("addresses")
	switch {
	case len(e.Addresses) == 0:
		errs = append(errs, field.Required(at, ""))
	case len(e.Addresses) > maxAddresses:
		errs = append(errs, field.TooMany(at, len(e.Addresses), maxAddresses))
	}
	for i, address := range e.Addresses {
		errs = append(errs, sliceAddress(address, kind, at, i)...)
	}
	errs = append(errs, network.NodeName(path.Child("nodeName"), e.NodeName)...)
	topology := path.Child("deprecatedTopology")
	if len(e.DeprecatedTopology) > maxTopology {
		errs = append(errs, field.TooMany(topology, len(e.DeprecatedTopology), maxTopology))
	}
	errs = append(errs, metav1validation.ValidateLabels(e.DeprecatedTopology, topology)...)
	if e.Hostname != nil {
		errs = append(errs, values.Invalid(path.Child("hostname"), *e.Hostname, validation.IsDNS1123Label(*e.Hostname))...)
	}
	return append(errs, hints(e.Hints, path.Child("hints"))...)
}

// sliceAddress checks the address at an index of a list. As in Kubernetes, only new IPv6 addresses must be
// in canonical form, and an address of the wrong family is an error of the list.
func sliceAddress(address string, kind discoveryv1.AddressType, list *field.Path, index int) field.ErrorList {
	var errs field.ErrorList
	path := list.Index(index)
	switch kind {
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path, address)
	case discoveryv1.AddressTypeIPv4:
		errs = network.Ip(path, address, nil)
	case discoveryv1.AddressTypeIPv6:
		errs = validation.IsValidIP(path, address)
	default:
		return nil
	}
	if len(errs) > 0 {
		return errs
	}
	if netutils.IsIPv6String(address) != (kind == discoveryv1.AddressTypeIPv6) {
		errs = append(errs, field.Invalid(list, address, fmt.Sprintf("must be an %s address", kind)))
	}
	return append(errs, network.OrdinaryIP(path, address)...)
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
	if len(zones) > maxHints {
		return errs
	}
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
		errs = append(errs, values.Invalid(at, name, check(name))...)
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
			errs = append(errs, values.Invalid(at.Child("name"), name, validation.IsDNS1123Label(name))...)
		}
		if seen.Has(name) {
			errs = append(errs, field.Duplicate(at.Child("name"), name))
		}
		seen.Insert(name)
		if port.Protocol == nil {
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		} else if p := *port.Protocol; p != corev1.ProtocolTCP && p != corev1.ProtocolUDP && p != corev1.ProtocolSCTP {
			errs = append(errs, field.NotSupported(at.Child("protocol"), p, network.Protocols()))
		}
		errs = append(errs, network.AppProtocol(at.Child("appProtocol"), port.AppProtocol)...)
	}
	return errs
}
