package validation

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAffinitySeconds bounds a session affinity: a day.
const maxAffinitySeconds = 86400

// Service gives what is wrong with a service.
func Service(s *corev1.Service) field.ErrorList {
	path, spec := field.NewPath("spec"), &s.Spec
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, true, apivalidation.NameIsDNS1035Label, field.NewPath("metadata"))
	headless := spec.ClusterIP == corev1.ClusterIPNone
	external := spec.Type == corev1.ServiceTypeExternalName
	if len(spec.Ports) == 0 && !headless && !external {
		errs = append(errs, field.Required(path.Child("ports"), ""))
	}
	errs = append(errs, serviceType(s, path)...)
	errs = append(errs, servicePorts(spec, path)...)
	errs = append(errs, metav1validation.ValidateLabels(spec.Selector, path.Child("selector"))...)
	errs = append(errs, sessionAffinity(spec, path)...)
	errs = append(errs, clusterIPs(spec, path)...)
	for i, ip := range spec.ExternalIPs {
		errs = append(errs, externalIP(ip, path.Child("externalIPs").Index(i))...)
	}
	errs = append(errs, trafficPolicies(spec, path)...)
	for i, cidr := range spec.LoadBalancerSourceRanges {
		if spec.Type != corev1.ServiceTypeLoadBalancer {
			errs = append(errs, field.Forbidden(path.Child("LoadBalancerSourceRanges"), "may only be used when `type` is 'LoadBalancer'"))
			break
		}
		if _, err := netip.ParsePrefix(cidr); err != nil {
			errs = append(errs, field.Invalid(path.Child("loadBalancerSourceRanges").Index(i), cidr, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))
		}
	}
	if class := spec.LoadBalancerClass; class != nil {
		if spec.Type != corev1.ServiceTypeLoadBalancer {
			errs = append(errs, field.Forbidden(path.Child("loadBalancerClass"), "may only be used when `type` is 'LoadBalancer'"))
		}
		for _, msg := range validation.IsQualifiedName(*class) {
			errs = append(errs, field.Invalid(path.Child("loadBalancerClass"), *class, msg))
		}
	}
	if d := spec.TrafficDistribution; d != nil {
		allowed := []string{corev1.ServiceTrafficDistributionPreferClose, "PreferSameZone", "PreferSameNode"}
		if !slices.Contains(allowed, *d) {
			errs = append(errs, field.NotSupported(path.Child("trafficDistribution"), *d, allowed))
		}
	}
	return errs
}

func serviceType(s *corev1.Service, path *field.Path) field.ErrorList {
	spec := &s.Spec
	var errs field.ErrorList
	switch spec.Type {
	case corev1.ServiceTypeClusterIP:
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		if spec.ClusterIP == corev1.ClusterIPNone {
			errs = append(errs, field.Invalid(path.Child("clusterIPs").Index(0), spec.ClusterIP, fmt.Sprintf("may not be set to 'None' for %s services", spec.Type)))
		}
	case corev1.ServiceTypeExternalName:
		if spec.ClusterIP != "" || len(spec.ClusterIPs) > 0 {
			errs = append(errs, field.Forbidden(path.Child("clusterIPs"), "may not be set when `type` is 'ExternalName'"))
		}
		if spec.ExternalName == "" {
			return append(errs, field.Required(path.Child("externalName"), ""))
		}
		for _, msg := range validation.IsDNS1123Subdomain(trimDot(spec.ExternalName)) {
			errs = append(errs, field.Invalid(path.Child("externalName"), spec.ExternalName, msg))
		}
	case "":
		errs = append(errs, field.Required(path.Child("type"), ""))
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), spec.Type, []corev1.ServiceType{
			corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort,
		}))
	}
	return errs
}

func trimDot(name string) string {
	if len(name) > 1 && name[len(name)-1] == '.' {
		return name[:len(name)-1]
	}
	return name
}

func servicePorts(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	type pair struct {
		protocol corev1.Protocol
		port     int32
	}
	seen, nodes := sets.New[pair](), sets.New[pair]()
	headless := spec.ClusterIP == corev1.ClusterIPNone
	for i := range spec.Ports {
		port, at := &spec.Ports[i], path.Child("ports").Index(i)
		if port.Name == "" && len(spec.Ports) > 1 {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if port.Name != "" {
			for _, msg := range validation.IsDNS1123Label(port.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), port.Name, msg))
			}
			if names.Has(port.Name) {
				errs = append(errs, field.Duplicate(at.Child("name"), port.Name))
			}
			names.Insert(port.Name)
		}
		for _, msg := range validation.IsValidPortNum(int(port.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), port.Port, msg))
		}
		switch port.Protocol {
		case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		case "":
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		default:
			errs = append(errs, field.NotSupported(at.Child("protocol"), port.Protocol, []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}))
		}
		errs = append(errs, portNumOrName(port.TargetPort, at.Child("targetPort"))...)
		if port.AppProtocol != nil {
			for _, msg := range validation.IsQualifiedName(*port.AppProtocol) {
				errs = append(errs, field.Invalid(at.Child("appProtocol"), *port.AppProtocol, msg))
			}
		}
		if headless && port.TargetPort.Type == intstr.Int && port.TargetPort.IntVal != port.Port && spec.Selector == nil {
			errs = append(errs, field.Invalid(at.Child("port"), port.Port, "must be equal to targetPort when clusterIP = None"))
		}
		if port.NodePort != 0 && (spec.Type == corev1.ServiceTypeClusterIP || spec.Type == corev1.ServiceTypeExternalName) {
			errs = append(errs, field.Forbidden(at.Child("nodePort"), fmt.Sprintf("may not be used when `type` is '%s'", spec.Type)))
		}
		key := pair{port.Protocol, port.Port}
		if seen.Has(key) {
			errs = append(errs, field.Duplicate(at, corev1.ServicePort{Protocol: port.Protocol, Port: port.Port}))
		}
		seen.Insert(key)
		if port.NodePort == 0 {
			continue
		}
		key = pair{port.Protocol, port.NodePort}
		if nodes.Has(key) {
			errs = append(errs, field.Duplicate(at.Child("nodePort"), port.NodePort))
		}
		nodes.Insert(key)
	}
	return errs
}

func portNumOrName(port intstr.IntOrString, path *field.Path) field.ErrorList {
	messages, value := validation.IsValidPortName(port.StrVal), any(port.StrVal)
	if port.Type == intstr.Int {
		messages, value = validation.IsValidPortNum(port.IntValue()), port.IntValue()
	}
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

func sessionAffinity(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		return nil
	case corev1.ServiceAffinityClientIP:
		at := path.Child("sessionAffinityConfig", "clientIP", "timeoutSeconds")
		c := spec.SessionAffinityConfig
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			return field.ErrorList{field.Required(at, fmt.Sprintf("when session affinity type is %s", corev1.ServiceAffinityClientIP))}
		}
		if seconds := *c.ClientIP.TimeoutSeconds; seconds <= 0 || seconds > maxAffinitySeconds {
			return field.ErrorList{field.Invalid(at, seconds, fmt.Sprintf("must be greater than 0 and less than %d", maxAffinitySeconds))}
		}
		return nil
	case "":
		return field.ErrorList{field.Required(path.Child("sessionAffinity"), "")}
	}
	return field.ErrorList{field.NotSupported(path.Child("sessionAffinity"), spec.SessionAffinity,
		[]corev1.ServiceAffinity{corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone})}
}

func clusterIPs(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range spec.ClusterIPs {
		at := path.Child("clusterIPs").Index(i)
		if ip == corev1.ClusterIPNone {
			if i > 0 || len(spec.ClusterIPs) > 1 {
				errs = append(errs, field.Invalid(at, ip, "'None' must be the first and only value"))
			}
			continue
		}
		errs = append(errs, validation.IsValidIP(at, ip)...)
	}
	if len(spec.ClusterIPs) > 1 {
		errs = append(errs, field.Invalid(path.Child("clusterIPs"), spec.ClusterIPs, "may only hold one value: this cluster has one service range"))
	}
	first := ""
	if len(spec.ClusterIPs) > 0 {
		first = spec.ClusterIPs[0]
	}
	if spec.ClusterIP != first {
		errs = append(errs, field.Invalid(path.Child("clusterIPs"), spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	seen := sets.New[corev1.IPFamily]()
	for i, family := range spec.IPFamilies {
		at := path.Child("ipFamilies").Index(i)
		if family != corev1.IPv4Protocol && family != corev1.IPv6Protocol {
			errs = append(errs, field.NotSupported(at, family, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
		}
		if seen.Has(family) {
			errs = append(errs, field.Duplicate(at, family))
		}
		seen.Insert(family)
	}
	if policy := spec.IPFamilyPolicy; policy != nil {
		switch *policy {
		case corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack:
		case corev1.IPFamilyPolicyRequireDualStack:
			if spec.Type != corev1.ServiceTypeExternalName {
				errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), *policy, "this cluster is not configured for dual-stack services"))
			}
		default:
			errs = append(errs, field.NotSupported(path.Child("ipFamilyPolicy"), *policy, []corev1.IPFamilyPolicy{
				corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack,
			}))
		}
	}
	return errs
}

func externalIP(ip string, path *field.Path) field.ErrorList {
	addr, err := netip.ParseAddr(ip)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(path, ip, "must be a valid IP address")}
	case addr.IsUnspecified():
		return field.ErrorList{field.Invalid(path, ip, fmt.Sprintf("may not be unspecified (%v)", ip))}
	case addr.IsLoopback():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the loopback range (127.0.0.0/8, ::1/128)")}
	case addr.IsLinkLocalUnicast():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")}
	case addr.IsLinkLocalMulticast():
		return field.ErrorList{field.Invalid(path, ip, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")}
	}
	return nil
}

func trafficPolicies(spec *corev1.ServiceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	facing := spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer ||
		spec.Type == corev1.ServiceTypeClusterIP && len(spec.ExternalIPs) > 0
	at := path.Child("externalTrafficPolicy")
	switch spec.ExternalTrafficPolicy {
	case "":
		if facing {
			errs = append(errs, field.Required(at, ""))
		}
	case corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal:
		if !facing {
			errs = append(errs, field.Invalid(at, spec.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
		}
	default:
		errs = append(errs, field.NotSupported(at, spec.ExternalTrafficPolicy, []corev1.ServiceExternalTrafficPolicy{
			corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal,
		}))
	}
	if policy := spec.InternalTrafficPolicy; policy != nil && *policy != corev1.ServiceInternalTrafficPolicyCluster && *policy != corev1.ServiceInternalTrafficPolicyLocal {
		errs = append(errs, field.NotSupported(path.Child("internalTrafficPolicy"), *policy, []corev1.ServiceInternalTrafficPolicy{
			corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal,
		}))
	}
	return errs
}

// ServiceUpdate gives what is wrong with an update of a service: between types that have one,
// the cluster IP stays.
func ServiceUpdate(s, old *corev1.Service) field.ErrorList {
	errs := Service(s)
	if old.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.Type != corev1.ServiceTypeExternalName && len(old.Spec.ClusterIPs) > 0 {
		at := field.NewPath("spec", "clusterIPs").Index(0)
		switch {
		case len(s.Spec.ClusterIPs) == 0:
			errs = append(errs, field.Invalid(at, s.Spec.ClusterIPs, "primary clusterIP can not be unset"))
		case s.Spec.ClusterIPs[0] != old.Spec.ClusterIPs[0]:
			errs = append(errs, field.Invalid(at, s.Spec.ClusterIPs, "may not change once set"))
		}
		if len(s.Spec.IPFamilies) > 0 && len(old.Spec.IPFamilies) > 0 && s.Spec.IPFamilies[0] != old.Spec.IPFamilies[0] {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(0), s.Spec.IPFamilies, "may not change once set"))
		}
	}
	return errs
}
