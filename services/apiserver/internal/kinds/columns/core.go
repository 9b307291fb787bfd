package columns

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func configMaps() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]), age(),
	}, func(c *corev1.ConfigMap, now time.Time) []any {
		return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), ageOf(c, now)}
	})
}

func secrets() layout {
	doc := corev1.Secret{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(), text("Type", doc["type"]), text("Data", doc["data"]), age(),
	}, func(s *corev1.Secret, now time.Time) []any {
		return []any{s.Name, string(s.Type), int64(len(s.Data)), ageOf(s, now)}
	})
}

func componentStatuses() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("Status", "Status of the component conditions"), text("Message", "Message of the component conditions"),
		text("Error", "Error of the component conditions"),
	}, func(c *corev1.ComponentStatus, _ time.Time) []any {
		status, message, failure := "Unknown", "", ""
		for _, condition := range c.Conditions {
			if condition.Type == corev1.ComponentHealthy {
				status, message, failure = "Unhealthy", condition.Message, condition.Error
				if condition.Status == corev1.ConditionTrue {
					status = "Healthy"
				}
				break
			}
		}
		return []any{c.Name, status, message, failure}
	})
}

func serviceAccounts() layout {
	return of([]metav1.TableColumnDefinition{name(), age()}, func(a *corev1.ServiceAccount, now time.Time) []any {
		return []any{a.Name, ageOf(a, now)}
	})
}

func namespaces() layout {
	return of([]metav1.TableColumnDefinition{
		name(), text("Status", "The status of the namespace"), age(),
	}, func(n *corev1.Namespace, now time.Time) []any {
		return []any{n.Name, string(n.Status.Phase), ageOf(n, now)}
	})
}

func nodes() layout {
	info := corev1.NodeSystemInfo{}.SwaggerDoc()
	addresses := corev1.NodeStatus{}.SwaggerDoc()["addresses"]
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Status", "The status of the node"),
		text("Roles", "The roles of the node"),
		age(),
		text("Version", info["kubeletVersion"]),
		wide(text("Internal-IP", addresses)),
		wide(text("External-IP", addresses)),
		wide(text("OS-Image", info["osImage"])),
		wide(text("Kernel-Version", info["kernelVersion"])),
		wide(text("Container-Runtime", info["containerRuntimeVersion"])),
	}, func(n *corev1.Node, now time.Time) []any {
		system := n.Status.NodeInfo
		return []any{
			n.Name, nodeStatus(n), roles(n), ageOf(n, now), system.KubeletVersion,
			address(n, corev1.NodeInternalIP), address(n, corev1.NodeExternalIP),
			orUnknown(system.OSImage), orUnknown(system.KernelVersion), orUnknown(system.ContainerRuntimeVersion),
		}
	})
}

func nodeStatus(n *corev1.Node) string {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		status = "NotReady"
		if c.Status == corev1.ConditionTrue {
			status = "Ready"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	return status
}

// roles returns a node's roles according to its labels.
func roles(n *corev1.Node) string {
	var found []string
	for key, value := range n.Labels {
		role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/")
		if !ok && key == "kubernetes.io/role" {
			role = value
		}
		if (ok || key == "kubernetes.io/role") && role != "" && !slices.Contains(found, role) {
			found = append(found, role)
		}
	}
	slices.Sort(found)
	return orNone(strings.Join(found, ","))
}

func address(n *corev1.Node, kind corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == kind {
			return a.Address
		}
	}
	return none
}

func orUnknown(value string) string {
	if value == "" {
		return unknown
	}
	return value
}

func services() layout {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Type", doc["type"]),
		text("Cluster-IP", doc["clusterIP"]),
		text("External-IP", doc["externalIPs"]),
		text("Port(s)", doc["ports"]),
		age(),
		wide(text("Selector", doc["selector"])),
	}, func(s *corev1.Service, now time.Time) []any {
		ip := none
		if len(s.Spec.ClusterIPs) > 0 {
			ip = s.Spec.ClusterIPs[0]
		}
		return []any{
			s.Name, string(s.Spec.Type), ip, externalIP(s), servicePorts(s.Spec.Ports), ageOf(s, now),
			metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}),
		}
	})
}

func externalIP(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return orNone(strings.Join(s.Spec.ExternalIPs, ","))
	case corev1.ServiceTypeLoadBalancer:
		var all []string
		for _, ingress := range s.Status.LoadBalancer.Ingress {
			if ingress.IP != "" {
				all = append(all, ingress.IP)
			} else if ingress.Hostname != "" {
				all = append(all, ingress.Hostname)
			}
		}
		slices.Sort(all)
		if all = append(slices.Compact(all), s.Spec.ExternalIPs...); len(all) > 0 {
			return strings.Join(all, ",")
		}
		return "<pending>"
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	}
	return unknown
}

func servicePorts(ports []corev1.ServicePort) string {
	var all []string
	for _, p := range ports {
		if p.NodePort > 0 {
			all = append(all, fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol))
		} else {
			all = append(all, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		}
	}
	return orNone(strings.Join(all, ","))
}
