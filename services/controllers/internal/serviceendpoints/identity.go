package serviceendpoints

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// PortKey returns a text that is equal for equal sets of ports, in whatever order.
func PortKey(ports []discoveryv1.EndpointPort) string {
	texts := make([]string, len(ports))
	for i, port := range ports {
		texts[i] = fmt.Sprintf("%q %s %s %s", text(port.Name), number(port.Port), text(port.Protocol), optional(port.AppProtocol))
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

func text[T ~string](value *T) string {
	if value == nil {
		return ""
	}
	return string(*value)
}

func number(value *int32) string {
	if value == nil {
		return "*"
	}
	return fmt.Sprint(*value)
}

func optional(value *string) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprintf("%q", *value)
}

// Identity tells endpoints apart within a Service: one that keeps it can be changed in place.
type Identity struct{ addresses, hostname, namespace, name string }

// Identify returns the identity of an endpoint: its addresses, its hostname and its pod.
func Identify(endpoint *discoveryv1.Endpoint) Identity {
	addresses := endpoint.Addresses
	if !slices.IsSorted(addresses) {
		addresses = slices.Sorted(slices.Values(addresses))
	}
	id := Identity{addresses: strings.Join(addresses, ","), hostname: text(endpoint.Hostname)}
	if ref := endpoint.TargetRef; ref != nil {
		id.namespace, id.name = ref.Namespace, ref.Name
	}
	return id
}

// Same reports whether two endpoints of the same identity are equal, but for their hints and the
// resourceVersion of their pod.
func Same(a, b *discoveryv1.Endpoint) bool {
	return equal(a.NodeName, b.NodeName) && equal(a.Zone, b.Zone) && equal(a.Conditions.Ready, b.Conditions.Ready) &&
		equal(a.Conditions.Serving, b.Conditions.Serving) && equal(a.Conditions.Terminating, b.Conditions.Terminating) &&
		equal(withoutVersion(a.TargetRef), withoutVersion(b.TargetRef))
}

func equal[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func withoutVersion(ref *corev1.ObjectReference) *corev1.ObjectReference {
	if ref == nil || ref.ResourceVersion == "" {
		return ref
	}
	copied := *ref
	copied.ResourceVersion = ""
	return &copied
}
