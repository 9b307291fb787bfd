package service

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validateService validates a new service. The port for health checks may still be missing: it is allocated
// after validation.
func validateService(s *corev1.Service) field.ErrorList {
	return service(s, &corev1.Service{})
}

// validateServiceUpdate validates an update of a service.
func validateServiceUpdate(s, old *corev1.Service) field.ErrorList {
	errs := network.ClusterIPsUpdate(s, old)
	errs = append(errs, network.IpFamiliesUpdate(s, old)...)
	balancers := s.Spec.Type == corev1.ServiceTypeLoadBalancer && old.Spec.Type == corev1.ServiceTypeLoadBalancer
	if class := s.Spec.LoadBalancerClass; balancers && !same(class, old.Spec.LoadBalancerClass) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "loadBalancerClass"), class, network.Unchangeable))
	}
	if network.NeedsHealthCheck(s) && network.NeedsHealthCheck(old) && s.Spec.HealthCheckNodePort != old.Spec.HealthCheckNodePort {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "healthCheckNodePort"), "field is immutable"))
	}
	return append(errs, service(s, old)...)
}

// validateServiceStatus validates an update of the status of a service.
func validateServiceStatus(s, old *corev1.Service) field.ErrorList {
	path, points := field.NewPath("status", "loadBalancer", "ingress"), s.Status.LoadBalancer.Ingress
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer && len(points) > 0 {
		return field.ErrorList{field.Forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var had []string
	for _, point := range old.Status.LoadBalancer.Ingress {
		had = append(had, point.IP)
	}
	var errs field.ErrorList
	for i, point := range points {
		at := path.Index(i)
		errs = append(errs, network.PublicPoint(at, point.IP, point.Hostname, had)...)
		mode := at.Child("ipMode")
		switch {
		case point.IPMode == nil:
			if point.IP != "" {
				errs = append(errs, field.Required(mode, "must be specified when `ip` is set"))
			}
		case point.IP == "":
			errs = append(errs, field.Forbidden(mode, "may not be specified when `ip` is not set"))
		case *point.IPMode != corev1.LoadBalancerIPModeVIP && *point.IPMode != corev1.LoadBalancerIPModeProxy:
			errs = append(errs, field.NotSupported(mode, *point.IPMode, []corev1.LoadBalancerIPMode{corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP}))
		}
	}
	return errs
}

// reachable reports whether a service can be reached from outside the cluster.
func reachable(s *corev1.Service) bool {
	spec := &s.Spec
	return spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeNodePort ||
		spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
}

func same(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

func service(s, old *corev1.Service) field.ErrorList {
	path, spec := field.NewPath("spec"), &s.Spec
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSLabel, field.NewPath("metadata"))
	hints, hasHints := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if mode, ok := s.Annotations[corev1.AnnotationTopologyMode]; ok && hasHints && mode != hints {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
			fmt.Sprintf("must match annotations[%s] when both are specified", corev1.DeprecatedAnnotationTopologyAwareHints)))
	}
	if len(spec.Ports) == 0 && !network.Headless(s) && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	errs = append(errs, serviceType(s, path)...)
	errs = append(errs, servicePorts(spec, path.Child("ports"))...)
	errs = append(errs, metav1validation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	errs = append(errs, sessionAffinity(spec, path)...)
	errs = append(errs, network.ServiceIPs(s, old)...)
	for i, address := range spec.ExternalIPs {
		at := path.Child("externalIPs").Index(i)
		if wrong := network.Ip(at, address, old.Spec.ExternalIPs); len(wrong) > 0 {
			errs = append(errs, wrong...)
		} else {
			errs = append(errs, network.OrdinaryIP(at, address)...)
		}
	}
	errs = append(errs, network.OneOf(path.Child("type"), spec.Type,
		corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort)...)
	errs = append(errs, uniquePorts(spec, path.Child("ports"))...)
	errs = append(errs, sourceRanges(s, old, path)...)
	errs = append(errs, balancer(spec, path)...)
	return append(errs, traffic(s, path)...)
}

func serviceType(s *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if network.Headless(s) {
			return field.ErrorList{field.Invalid(path.Child("clusterIPs").Index(0), spec.ClusterIPs[0], fmt.Sprintf("may not be set to 'None' for %s services", spec.Type))}
		}
	case corev1.ServiceTypeExternalName:
		const never = "may not be set for ExternalName services"
		var errs field.ErrorList
		if len(spec.ClusterIPs) > 0 {
			errs = append(errs, field.Forbidden(path.Child("clusterIPs"), never))
		}
		if len(spec.IPFamilies) > 0 {
			errs = append(errs, field.Forbidden(path.Child("ipFamilies"), never))
		}
		if spec.IPFamilyPolicy != nil {
			errs = append(errs, field.Forbidden(path.Child("ipFamilyPolicy"), never))
		}
		// The trailing dot of a fully qualified name is allowed.
		name := strings.TrimSuffix(spec.ExternalName, ".")
		if name == "" {
			return append(errs, field.Required(path.Child("externalName"), ""))
		}
		return append(errs, values.Invalid(path.Child("externalName"), name, validation.IsDNS1123Subdomain(name))...)
	}
	return nil
}

func servicePorts(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i := range spec.Ports {
		port, at := &spec.Ports[i], path.Index(i)
		if port.Name == "" {
			if len(spec.Ports) > 1 {
				errs = append(errs, field.Required(at.Child("name"), ""))
			}
		} else {
			errs = append(errs, values.Invalid(at.Child("name"), port.Name, validation.IsDNS1123Label(port.Name))...)
			if names.Has(port.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
			}
			names.Insert(port.Name)
		}
		errs = append(errs, values.Invalid(at.Child("port"), port.Port, validation.IsValidPortNum(int(port.Port)))...)
		errs = append(errs, network.OneOf(at.Child("protocol"), port.Protocol, network.Protocols()...)...)
		errs = append(errs, network.PortNumOrName(at.Child("targetPort"), port.TargetPort)...)
		errs = append(errs, network.AppProtocol(at.Child("appProtocol"), port.AppProtocol)...)
	}
	return errs
}

// uniquePorts allows node ports only where they are used, and each pair of protocol and port only
// once.
func uniquePorts(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs, pairs field.ErrorList
	type pair struct {
		protocol corev1.Protocol
		port     int32
	}
	ports, nodePorts := sets.New[pair](), sets.New[pair]()
	for i, port := range spec.Ports {
		if key := (pair{port.Protocol, port.Port}); ports.Has(key) {
			pairs = append(pairs, field.Duplicate(path.Index(i), corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}))
		} else {
			ports.Insert(key)
		}
		if port.NodePort == 0 {
			continue
		}
		at := path.Index(i).Child("nodePort")
		if spec.Type == corev1.ServiceTypeClusterIP {
			errs = append(errs, field.Forbidden(at, "may not be used when `type` is 'ClusterIP'"))
		}
		key := pair{port.Protocol, port.NodePort}
		if nodePorts.Has(key) {
			errs = append(errs, field.Duplicate(at, port.NodePort))
		}
		nodePorts.Insert(key)
	}
	return append(errs, pairs...)
}

func sessionAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	errs := network.OneOf(path.Child("sessionAffinity"), spec.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	at, config := path.Child("sessionAffinityConfig"), spec.SessionAffinityConfig
	if spec.SessionAffinity == corev1.ServiceAffinityNone && config != nil {
		errs = append(errs, field.Forbidden(at, "must not be set when session affinity is None"))
	}
	if spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return errs
	}
	const why = "when session affinity type is ClientIP"
	clientIP := at.Child("clientIP")
	switch {
	case config == nil:
		return append(errs, field.Required(at, why))
	case config.ClientIP == nil:
		return append(errs, field.Required(clientIP, why))
	case config.ClientIP.TimeoutSeconds == nil:
		return append(errs, field.Required(clientIP.Child("timeoutSeconds"), why))
	}
	if seconds := *config.ClientIP.TimeoutSeconds; seconds <= 0 || seconds > network.MaxAffinitySeconds {
		errs = append(errs, field.Invalid(clientIP.Child("timeoutSeconds"), seconds, fmt.Sprintf("must be greater than 0 and less than %d", network.MaxAffinitySeconds)))
	}
	return errs
}

// sourceRanges checks the client addresses that a load balancer admits, in the field or in the
// older annotation.
func sourceRanges(s, old *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	outOfPlace := func(at *field.Path) {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			errs = append(errs, field.Forbidden(at, network.OnlyLoadBalancer))
		}
	}
	const annotation = corev1.AnnotationLoadBalancerSourceRangesKey
	if ranges := s.Spec.LoadBalancerSourceRanges; len(ranges) > 0 {
		at := path.Child("LoadBalancerSourceRanges")
		outOfPlace(at)
		var had []string
		for _, text := range old.Spec.LoadBalancerSourceRanges {
			had = append(had, strings.TrimSpace(text))
		}
		for i, text := range ranges {
			errs = append(errs, network.Cidr(at.Index(i), strings.TrimSpace(text), had)...)
		}
	} else if text, ok := s.Annotations[annotation]; ok {
		at := field.NewPath("metadata", "annotations").Key(annotation)
		outOfPlace(at)
		before, kept := old.Annotations[annotation]
		if kept = kept && before == text; kept || strings.TrimSpace(text) == "" {
			return errs
		}
		for part := range strings.SplitSeq(text, ",") {
			errs = append(errs, network.Cidr(at, strings.TrimSpace(part), nil)...)
		}
	}
	return errs
}

func balancer(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	class := path.Child("loadBalancerClass")
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		var errs field.ErrorList
		if spec.AllocateLoadBalancerNodePorts == nil {
			// Kubernetes omits "spec" from this path.
			errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
		}
		if spec.LoadBalancerClass != nil {
			errs = append(errs, values.Invalid(class, *spec.LoadBalancerClass, validation.IsQualifiedName(*spec.LoadBalancerClass))...)
		}
		return errs
	}
	var errs field.ErrorList
	if spec.AllocateLoadBalancerNodePorts != nil {
		errs = append(errs, field.Forbidden(path.Child("allocateLoadBalancerNodePorts"), network.OnlyLoadBalancer))
	}
	if spec.LoadBalancerClass != nil {
		errs = append(errs, field.Forbidden(class, network.OnlyLoadBalancer))
	}
	return errs
}

func traffic(s *corev1.Service, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	spec := &s.Spec
	external, check := path.Child("externalTrafficPolicy"), path.Child("healthCheckNodePort")
	if reachable(s) {
		errs = append(errs, network.OneOf(external, spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	} else if spec.ExternalTrafficPolicy != "" {
		errs = append(errs, field.Invalid(external, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	if port := spec.HealthCheckNodePort; port != 0 && network.NeedsHealthCheck(s) {
		errs = append(errs, values.Invalid(check, port, validation.IsValidPortNum(int(port)))...)
	} else if port != 0 {
		errs = append(errs, field.Invalid(check, port, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
	}
	internal := path.Child("internalTrafficPolicy")
	if policy := spec.InternalTrafficPolicy; policy != nil {
		if *policy != corev1.ServiceInternalTrafficPolicyCluster && *policy != corev1.ServiceInternalTrafficPolicyLocal {
			errs = append(errs, field.NotSupported(internal, *policy, []corev1.ServiceInternalTrafficPolicy{
				corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal,
			}))
		}
	} else if spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer || spec.Type == corev1.ServiceTypeClusterIP {
		errs = append(errs, field.Required(internal, ""))
	}
	if d := spec.TrafficDistribution; d != nil {
		switch *d {
		case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode:
		default:
			errs = append(errs, field.NotSupported(path.Child("trafficDistribution"), *d, []string{
				corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode,
			}))
		}
	}
	return errs
}
