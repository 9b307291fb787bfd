package endpoints

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/controllers/internal/endpointsubsets"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

const (
	// capacity bounds the addresses of Endpoints (Kubernetes, maxCapacity).
	capacity = 1000
	// truncated is the value of the annotation of Endpoints that lack addresses for want of room.
	truncated = "truncated"
)

// subsets returns the canonical subsets of a Service's Endpoints.
func subsets(svc *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	var all []corev1.EndpointSubset
	for _, pod := range pods {
		if !serviceendpoints.Included(pod) || pod.DeletionTimestamp != nil && !svc.Spec.PublishNotReadyAddresses {
			continue
		}
		address, found := newAddress(svc, pod)
		if !found {
			continue // The pod has no address of the Service's family.
		}
		var ports []corev1.EndpointPort
		for i := range svc.Spec.Ports {
			port := &svc.Spec.Ports[i]
			if number, found := serviceendpoints.Port(pod, port); found {
				ports = append(ports, corev1.EndpointPort{
					Name: port.Name, Port: number, Protocol: port.Protocol, AppProtocol: port.AppProtocol,
				})
			}
		}
		if len(ports) == 0 && (len(svc.Spec.Ports) > 0 || svc.Spec.ClusterIP != corev1.ClusterIPNone) {
			continue
		}
		subset := corev1.EndpointSubset{Ports: ports}
		if svc.Spec.PublishNotReadyAddresses || podstate.Ready(pod) {
			subset.Addresses = []corev1.EndpointAddress{address}
		} else {
			subset.NotReadyAddresses = []corev1.EndpointAddress{address}
		}
		all = append(all, subset)
	}
	return endpointsubsets.Repack(all)
}

// newAddress returns the address of a pod in the first family of a Service; false if it has none.
func newAddress(svc *corev1.Service, pod *corev1.Pod) (corev1.EndpointAddress, bool) {
	v6 := wantsIPv6(svc, pod)
	for _, podIP := range pod.Status.PodIPs {
		ip := netutils.ParseIPSloppy(podIP.IP)
		if ip == nil || netutils.IsIPv6(ip) != v6 {
			continue
		}
		node := pod.Spec.NodeName
		return corev1.EndpointAddress{
			IP: ip.String(), NodeName: &node, Hostname: serviceendpoints.Hostname(svc, pod),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		}, true
	}
	return corev1.EndpointAddress{}, false
}

// wantsIPv6 reports whether the Endpoints of a Service have IPv6 addresses. A Service that does not say
// has the family of its own address, or else of the pod's.
func wantsIPv6(svc *corev1.Service, pod *corev1.Pod) bool {
	switch {
	case len(svc.Spec.IPFamilies) > 0:
		return svc.Spec.IPFamilies[0] == corev1.IPv6Protocol
	case svc.Spec.ClusterIP != "" && svc.Spec.ClusterIP != corev1.ClusterIPNone:
		return netutils.IsIPv6String(svc.Spec.ClusterIP)
	}
	return netutils.IsIPv6String(pod.Status.PodIP)
}

// truncate cuts subsets down to the capacity, if they exceed it: those that are not ready first, and from
// each subset in proportion to its size.
func truncate(all []corev1.EndpointSubset) (left []corev1.EndpointSubset, cut bool) {
	ready, notReady := 0, 0
	for _, subset := range all {
		ready += len(subset.Addresses)
		notReady += len(subset.NotReadyAddresses)
	}
	if ready+notReady <= capacity {
		return all, false
	}
	room, total := capacity-ready, notReady
	if ready > capacity {
		room, total = capacity, ready
	}
	free := room
	share := func(addresses []corev1.EndpointAddress) []corev1.EndpointAddress {
		n := int(math.Ceil(float64(len(addresses)) / float64(total) * float64(room)))
		n = min(n, free, len(addresses))
		free -= n
		return addresses[:n]
	}
	for i := range all {
		if ready > capacity {
			all[i].Addresses, all[i].NotReadyAddresses = share(all[i].Addresses), nil
		} else {
			all[i].NotReadyAddresses = share(all[i].NotReadyAddresses)
		}
	}
	return all, true
}

// withoutVersions returns subsets whose references have no resourceVersion, so that a pod's other changes
// make no difference.
func withoutVersions(all []corev1.EndpointSubset) []corev1.EndpointSubset {
	stripped := func(addresses []corev1.EndpointAddress) []corev1.EndpointAddress {
		result := slices.Clone(addresses)
		for i, address := range result {
			if address.TargetRef != nil && address.TargetRef.ResourceVersion != "" {
				ref := *address.TargetRef
				ref.ResourceVersion = ""
				result[i].TargetRef = &ref
			}
		}
		return result
	}
	result := slices.Clone(all)
	for i := range result {
		result[i].Addresses = stripped(result[i].Addresses)
		result[i].NotReadyAddresses = stripped(result[i].NotReadyAddresses)
	}
	return result
}
