package endpointslicemirroring

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/controllers/internal/endpointsubsets"
	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

// groupKey tells groups of endpoints apart that cannot share a slice.
type groupKey struct {
	addressType discoveryv1.AddressType
	ports       string
}

// group is the endpoints of one slice.
type group struct {
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
}

// mirror returns the endpoints that mirror Endpoints. Invalid is the number of addresses that are no IP
// addresses, and skipped that of all that are left out.
func mirror(e *corev1.Endpoints) (wanted map[groupKey]*group, invalid, skipped int) {
	wanted = map[groupKey]*group{}
	known := map[groupKey]map[serviceendpoints.Identity]bool{}
	for _, subset := range endpointsubsets.Repack(e.Subsets) {
		ports := slicePorts(subset.Ports)
		portKey := serviceendpoints.PortKey(ports)
		added := 0
		add := func(addresses []corev1.EndpointAddress, ready bool) {
			for i := range addresses {
				if added >= maxAddresses {
					return
				}
				endpoint, addressType, valid := newEndpoint(&addresses[i], ready)
				if !valid {
					invalid++
					continue
				}
				added++
				key := groupKey{addressType, portKey}
				if wanted[key] == nil {
					wanted[key], known[key] = &group{ports: ports}, map[serviceendpoints.Identity]bool{}
				}
				if id := serviceendpoints.Identify(&endpoint); !known[key][id] {
					known[key][id] = true
					wanted[key].endpoints = append(wanted[key].endpoints, endpoint)
				}
			}
		}
		add(subset.Addresses, true)
		add(subset.NotReadyAddresses, false)
		skipped += len(subset.Addresses) + len(subset.NotReadyAddresses) - added
	}
	return wanted, invalid, skipped
}

// newEndpoint returns the endpoint of an address; false if it is no IP address.
func newEndpoint(address *corev1.EndpointAddress, ready bool) (discoveryv1.Endpoint, discoveryv1.AddressType, bool) {
	ip := netutils.ParseIPSloppy(address.IP)
	if ip == nil {
		return discoveryv1.Endpoint{}, "", false
	}
	addressType := discoveryv1.AddressTypeIPv4
	if ip.To4() == nil {
		addressType = discoveryv1.AddressTypeIPv6
	}
	endpoint := discoveryv1.Endpoint{
		Addresses: []string{ip.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef: address.TargetRef, NodeName: address.NodeName,
	}
	if address.Hostname != "" {
		endpoint.Hostname = &address.Hostname
	}
	return endpoint, addressType, true
}

func slicePorts(ports []corev1.EndpointPort) []discoveryv1.EndpointPort {
	result := make([]discoveryv1.EndpointPort, 0, len(ports))
	for i := range ports {
		port := &ports[i]
		result = append(result, discoveryv1.EndpointPort{
			Name: &port.Name, Port: &port.Port, Protocol: &port.Protocol, AppProtocol: port.AppProtocol,
		})
	}
	return result
}

// newPlan plans how slices come to hold the endpoints that are wanted: one slice for each group.
func newPlan(e *corev1.Endpoints, wanted map[groupKey]*group, existing []*discoveryv1.EndpointSlice) serviceendpoints.Plan {
	var p serviceendpoints.Plan
	seen := map[groupKey]bool{}
	for _, slice := range existing {
		key := groupKey{slice.AddressType, serviceendpoints.PortKey(slice.Ports)}
		g := wanted[key]
		if g == nil || seen[key] {
			p.Delete = append(p.Delete, slice)
			continue
		}
		seen[key] = true
		if next := newSlice(e, key.addressType, g); !upToDate(e, slice, next) {
			next.Name, next.GenerateName, next.ResourceVersion, next.UID = slice.Name, "", slice.ResourceVersion, slice.UID
			p.Update = append(p.Update, next)
		}
	}
	for key, g := range wanted {
		if !seen[key] {
			p.Create = append(p.Create, newSlice(e, key.addressType, g))
		}
	}
	return p
}

// newSlice returns the slice of a group.
func newSlice(e *corev1.Endpoints, addressType discoveryv1.AddressType, g *group) *discoveryv1.EndpointSlice {
	labels, annotations := maps.Clone(e.Labels), maps.Clone(e.Annotations)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[discoveryv1.LabelServiceName], labels[discoveryv1.LabelManagedBy] = e.Name, manager
	delete(annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, GenerateName: serviceendpoints.NamePrefix(e.Name), Labels: labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(e, corev1.SchemeGroupVersion.WithKind("Endpoints"))},
		},
		AddressType: addressType, Ports: g.ports, Endpoints: g.endpoints[:min(len(g.endpoints), maxAddresses)],
	}
}

// upToDate reports whether a slice needs no write.
func upToDate(e *corev1.Endpoints, slice, next *discoveryv1.EndpointSlice) bool {
	if !maps.Equal(slice.Labels, next.Labels) || !maps.Equal(slice.Annotations, next.Annotations) ||
		len(slice.Endpoints) != len(next.Endpoints) {
		return false
	}
	former := func(ref metav1.OwnerReference) bool {
		return ref.Kind == "Endpoints" && ref.Name == e.Name && ref.UID != e.UID
	}
	if slices.ContainsFunc(slice.OwnerReferences, former) {
		return false
	}
	current := make(map[serviceendpoints.Identity]*discoveryv1.Endpoint, len(slice.Endpoints))
	for i := range slice.Endpoints {
		current[serviceendpoints.Identify(&slice.Endpoints[i])] = &slice.Endpoints[i]
	}
	for i := range next.Endpoints {
		endpoint := current[serviceendpoints.Identify(&next.Endpoints[i])]
		if endpoint == nil || !serviceendpoints.Same(endpoint, &next.Endpoints[i]) {
			return false
		}
	}
	return true
}
