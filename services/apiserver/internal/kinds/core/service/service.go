package service

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/dualstack"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

// Service defines services. As in Kubernetes, errors in a service's families suppress all
// others.
func Service(families dualstack.Families, addresses kinds.Reserver) *kinds.Definition {
	definition := kinds.Of[*corev1.Service]{
		Columns: serviceColumns(),
		Level:   kinds.Full,
		Default: defaultService,
		Create: func(s *corev1.Service) {
			s.Status = corev1.ServiceStatus{}
			families.Complete(s, nil)
		},
		Validate: func(s *corev1.Service) field.ErrorList {
			if errs := families.Complete(s.DeepCopy(), nil); len(errs) > 0 {
				return errs
			}
			return validateService(s)
		},
		Update: kinds.ChangeOf[*corev1.Service]{
			Prepare: func(s, old *corev1.Service) {
				s.Status = *old.Status.DeepCopy()
				families.Complete(s, old)
				dropOfType(s, old)
			},
			Validate: func(s, old *corev1.Service) field.ErrorList {
				if errs := families.Complete(s.DeepCopy(), old); len(errs) > 0 {
					return errs
				}
				return validateServiceUpdate(s, old)
			},
		},
		Subresources: map[string]kinds.ChangeOf[*corev1.Service]{"status": {
			Prepare:  func(s, old *corev1.Service) { s.Spec = *old.Spec.DeepCopy() },
			Validate: validateServiceStatus,
			Warnings: serviceStatusWarnings,
		}},
		Canonicalize: dropUnneeded,
		Warnings:     serviceWarnings,
		FieldLabels:  []string{"spec.clusterIP", "spec.type"},
		Fields: func(s *corev1.Service) fields.Set {
			return fields.Set{"spec.clusterIP": s.Spec.ClusterIP, "spec.type": string(s.Spec.Type)}
		},
		AllowCreateOnUpdate: true,
		ReturnDeleted:       true,
	}.Definition()
	definition.Reserve = addresses
	definition.DeletedWith = []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("Endpoints")}
	return definition
}

// serviceStatusWarnings warns about addresses of a load balancer that are not in canonical form.
func serviceStatusWarnings(s, _ *corev1.Service) []string {
	var found []string
	for i, point := range s.Status.LoadBalancer.Ingress {
		if point.IP != "" {
			found = append(found, network.IPWarnings(field.NewPath("status", "loadBalancer", "ingress").Index(i), point.IP)...)
		}
	}
	return found
}

// dropUnneeded drops what a client's defaulting may have left from another type. As in Kubernetes, it must
// be valid nevertheless.
func dropUnneeded(s *corev1.Service) {
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		s.Spec.InternalTrafficPolicy = nil
	}
}

// dropOfType drops fields that the old type of a service needs and its new type does not. If the
// client changes such a field at the same time, it is left for validation to reject.
func dropOfType(s, old *corev1.Service) {
	now, before := &s.Spec, &old.Spec
	if now.Type == corev1.ServiceTypeExternalName && before.Type != now.Type {
		if now.ClusterIP == before.ClusterIP && slices.Equal(now.ClusterIPs, before.ClusterIPs) {
			now.ClusterIP, now.ClusterIPs = "", nil
		}
		if slices.Equal(now.IPFamilies, before.IPFamilies) {
			now.IPFamilies = nil
		}
		if equalPointers(now.IPFamilyPolicy, before.IPFamilyPolicy) {
			now.IPFamilyPolicy = nil
		}
	}
	if dualstack.NodePorts(old) && !dualstack.NodePorts(s) && onlyKnownNodePorts(now, before) {
		for i := range now.Ports {
			now.Ports[i].NodePort = 0
		}
	}
	if reachable(old) && !reachable(s) && now.ExternalTrafficPolicy == before.ExternalTrafficPolicy {
		now.ExternalTrafficPolicy = ""
	}
	if network.NeedsHealthCheck(old) && !network.NeedsHealthCheck(s) && now.HealthCheckNodePort == before.HealthCheckNodePort {
		now.HealthCheckNodePort = 0
	}
	if now.Type == corev1.ServiceTypeLoadBalancer {
		return
	}
	if before.Type == corev1.ServiceTypeLoadBalancer {
		if now.AllocateLoadBalancerNodePorts != nil && equalPointers(now.AllocateLoadBalancerNodePorts, before.AllocateLoadBalancerNodePorts) {
			now.AllocateLoadBalancerNodePorts = nil
		}
		if equalPointers(now.LoadBalancerClass, before.LoadBalancerClass) {
			now.LoadBalancerClass = nil
		}
	}
	s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
}

// onlyKnownNodePorts reports whether every node port of a service is one that it had before.
func onlyKnownNodePorts(now, before *corev1.ServiceSpec) bool {
	return !slices.ContainsFunc(now.Ports, func(port corev1.ServicePort) bool {
		return port.NodePort != 0 && !slices.ContainsFunc(before.Ports, func(had corev1.ServicePort) bool { return had.NodePort == port.NodePort })
	})
}

func equalPointers[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

func serviceWarnings(s *corev1.Service) []string {
	var warnings []string
	spec, path := &s.Spec, field.NewPath("spec")
	if _, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]; ok {
		warnings = append(warnings, fmt.Sprintf("annotation %s is deprecated, please use %s instead", corev1.DeprecatedAnnotationTopologyAwareHints, corev1.AnnotationTopologyMode))
	}
	if spec.ClusterIP != "" && spec.ClusterIP != corev1.ClusterIPNone {
		for i, address := range spec.ClusterIPs {
			warnings = append(warnings, network.IPWarnings(path.Child("clusterIPs").Index(i), address)...)
		}
	}
	external := spec.Type == corev1.ServiceTypeExternalName
	headless := (spec.Type == corev1.ServiceTypeClusterIP || spec.Type == "") && spec.ClusterIP == corev1.ClusterIPNone
	if headless {
		if spec.LoadBalancerIP != "" {
			warnings = append(warnings, "spec.loadBalancerIP is ignored for headless services")
		}
		if len(spec.ExternalIPs) > 0 {
			warnings = append(warnings, "spec.externalIPs is ignored for headless services")
		}
		if spec.SessionAffinity != corev1.ServiceAffinityNone && spec.SessionAffinity != "" {
			warnings = append(warnings, "spec.SessionAffinity is ignored for headless services")
		}
	}
	for i, address := range spec.ExternalIPs {
		warnings = append(warnings, network.IPWarnings(path.Child("externalIPs").Index(i), address)...)
	}
	if len(spec.ExternalIPs) > 0 && !headless && !external {
		warnings = append(warnings, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	if spec.LoadBalancerIP != "" {
		warnings = append(warnings, network.IPWarnings(path.Child("loadBalancerIP"), spec.LoadBalancerIP)...)
	}
	for i, text := range spec.LoadBalancerSourceRanges {
		warnings = append(warnings, network.CIDRWarnings(path.Child("loadBalancerSourceRanges").Index(i), text)...)
	}
	if external && len(spec.ExternalIPs) > 0 {
		warnings = append(warnings, fmt.Sprintf("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName))
	}
	if !external && spec.ExternalName != "" {
		warnings = append(warnings, fmt.Sprintf("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName))
	}
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		warnings = append(warnings, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q", corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone))
	}
	return warnings
}

// clientIPSeconds is how long a client stays with the same pod of a service: three hours.
const clientIPSeconds int32 = 3 * 60 * 60

// defaultService sets the defaults of a service, except allocated values.
func defaultService(s *corev1.Service) {
	kinds.FillString(&s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch s.Spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		s.Spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		c := s.Spec.SessionAffinityConfig
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			seconds := clientIPSeconds
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
	}
	kinds.FillString(&s.Spec.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		kinds.FillString(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	external := s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
	if external || s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0 {
		kinds.FillString(&s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if external || s.Spec.Type == corev1.ServiceTypeClusterIP {
		kinds.Fill(&s.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	kinds.Fill(&s.Spec.AllocateLoadBalancerNodePorts, true)
	for i := range s.Status.LoadBalancer.Ingress {
		if point := &s.Status.LoadBalancer.Ingress[i]; point.IP != "" {
			kinds.Fill(&point.IPMode, corev1.LoadBalancerIPModeVIP)
		}
	}
}

func serviceColumns() *columns.Layout {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Type", doc["type"]),
		columns.Text("Cluster-IP", doc["clusterIP"]),
		columns.Text("External-IP", doc["externalIPs"]),
		columns.Text("Port(s)", doc["ports"]),
		columns.Age(),
		columns.Wide(columns.Text("Selector", doc["selector"])),
	}, func(s *corev1.Service, now time.Time) []any {
		ip := columns.None
		if len(s.Spec.ClusterIPs) > 0 {
			ip = s.Spec.ClusterIPs[0]
		}
		return []any{
			s.Name, string(s.Spec.Type), ip, externalIP(s), portsCell(s.Spec.Ports), columns.AgeOf(s, now),
			labels.FormatLabels(s.Spec.Selector),
		}
	})
}

func externalIP(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		if len(s.Spec.ExternalIPs) == 0 {
			return columns.None
		}
		return strings.Join(s.Spec.ExternalIPs, ",")
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
	return columns.Unknown
}

func portsCell(ports []corev1.ServicePort) string {
	var all []string
	for _, p := range ports {
		if p.NodePort > 0 {
			all = append(all, fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol))
		} else {
			all = append(all, fmt.Sprintf("%d/%s", p.Port, p.Protocol))
		}
	}
	return columns.OrNone(strings.Join(all, ","))
}
