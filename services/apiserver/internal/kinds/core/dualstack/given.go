package dualstack

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

// NodePorts reports whether the ports of a service are open on every node.
func NodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// keepGiven restores what a service was given before and the client left out, so that the same
// manifest can be sent again.
func keepGiven(s, old *corev1.Service) {
	now, before := &s.Spec, &old.Spec
	if now.Type != corev1.ServiceTypeExternalName && before.Type != corev1.ServiceTypeExternalName {
		if now.ClusterIP == "" {
			now.ClusterIP = before.ClusterIP
		}
		if len(now.ClusterIPs) == 0 && len(before.ClusterIPs) > 0 {
			now.ClusterIPs = slices.Clone(before.ClusterIPs)
		}
	}
	if NodePorts(s) && NodePorts(old) {
		keepNodePorts(now, before)
	}
	if network.NeedsHealthCheck(s) && network.NeedsHealthCheck(old) && now.HealthCheckNodePort == 0 {
		now.HealthCheckNodePort = before.HealthCheckNodePort
	}
}

// keepNodePorts restores the node ports of ports by name, but never gives one to a second port.
func keepNodePorts(now, before *corev1.ServiceSpec) {
	has := func(spec *corev1.ServiceSpec, nodePort int32) bool {
		return slices.ContainsFunc(spec.Ports, func(p corev1.ServicePort) bool { return p.NodePort == nodePort })
	}
	had, used := map[string]int32{}, map[int32]bool{}
	for _, port := range before.Ports {
		had[port.Name] = port.NodePort
		used[port.NodePort] = port.NodePort != 0 && has(now, port.NodePort)
	}
	for i := range now.Ports {
		port := &now.Ports[i]
		if nodePort := had[port.Name]; port.NodePort == 0 && !used[nodePort] {
			port.NodePort = nodePort
		}
	}
}

// alignClusterIPs lets a client that knows only clusterIP or only clusterIPs set, change or clear
// the cluster IP.
func alignClusterIPs(s, old *corev1.Service) {
	now := &s.Spec
	if old == nil {
		if now.ClusterIP != "" && len(now.ClusterIPs) == 0 {
			now.ClusterIPs = []string{now.ClusterIP}
		}
		return
	}
	before := &old.Spec
	same := slices.Equal(now.ClusterIPs, before.ClusterIPs)
	switch {
	case now.ClusterIP == before.ClusterIP:
		if len(now.ClusterIPs) == 0 && len(before.ClusterIPs) > 0 {
			now.ClusterIPs = slices.Clone(before.ClusterIPs)
		}
	case before.ClusterIP != "" && now.ClusterIP == "":
		if same {
			now.ClusterIPs = nil
		}
	case same:
		now.ClusterIPs = []string{now.ClusterIP}
	}
}
