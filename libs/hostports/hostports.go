// Package hostports knows which ports pods take on their nodes. The scheduler and the node agent must agree on
// that.
package hostports

import corev1 "k8s.io/api/core/v1"

// Port is a port that a container takes on its node.
type Port struct {
	// IP is empty for all addresses. As in Kubernetes, "::" is an address like any other.
	IP       string
	Protocol corev1.Protocol
	Port     int32
}

// Conflicts reports whether both ports cannot be taken at once.
func (p Port) Conflicts(other Port) bool {
	return p.Port == other.Port && p.Protocol == other.Protocol &&
		(p.IP == other.IP || p.IP == "" || other.IP == "")
}

// Of returns the ports that a pod takes on its node.
func Of(pod *corev1.Pod) []Port {
	var ports []Port
	add := func(containers []corev1.Container, sidecarsOnly bool) {
		for i := range containers {
			c := &containers[i]
			if sidecarsOnly && (c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways) {
				continue
			}
			for _, port := range c.Ports {
				if port.HostPort == 0 {
					continue
				}
				p := Port{IP: port.HostIP, Protocol: port.Protocol, Port: port.HostPort}
				if p.IP == "0.0.0.0" {
					p.IP = ""
				}
				if p.Protocol == "" {
					p.Protocol = corev1.ProtocolTCP
				}
				ports = append(ports, p)
			}
		}
	}
	add(pod.Spec.Containers, false)
	add(pod.Spec.InitContainers, true)
	return ports
}
