package network

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Headless reports whether a service has no address of its own.
func Headless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// NeedsHealthCheck reports whether the nodes must report to a load balancer whether they have
// endpoints.
func NeedsHealthCheck(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// ServiceIPs validates the addresses and address families of a service, some of which may still be
// missing. old is the service before an update, or an empty one.
func ServiceIPs(s, old *corev1.Service) field.ErrorList {
	spec := &s.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "clusterIPs")
	switch {
	case spec.ClusterIP == "":
		if len(spec.ClusterIPs) > 0 {
			errs = append(errs, field.Invalid(path, spec.ClusterIPs, "must be empty when `clusterIP` is not specified"))
		}
	case len(spec.ClusterIPs) == 0:
		errs = append(errs, field.Required(path, ""))
	case spec.ClusterIPs[0] != spec.ClusterIP:
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	errs = append(errs, families(spec)...)
	bad := false
	for i, address := range spec.ClusterIPs {
		if i == 0 && address == corev1.ClusterIPNone {
			if len(spec.ClusterIPs) > 1 {
				bad = true
				errs = append(errs, field.Invalid(path, spec.ClusterIPs, "'None' must be the first and only value"))
			}
			continue
		}
		wrong := Ip(path.Index(i), address, old.Spec.ClusterIPs)
		bad = bad || len(wrong) > 0
		errs = append(errs, wrong...)
	}
	if len(spec.ClusterIPs) > 2 {
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "may only hold up to 2 values"))
	}
	if bad || Headless(s) {
		return errs // The following checks would only repeat that these are not addresses.
	}
	if dual, err := netutils.IsDualStackIPStrings(spec.ClusterIPs); err == nil && !dual && len(spec.ClusterIPs) > 1 {
		errs = append(errs, field.Invalid(path, spec.ClusterIPs, "may specify no more than one IP for each IP family"))
	}
	for i, address := range spec.ClusterIPs {
		if i == len(spec.IPFamilies) {
			break
		}
		family, six := spec.IPFamilies[i], netutils.IsIPv6String(address)
		if family == corev1.IPv4Protocol && six || family == corev1.IPv6Protocol && !six {
			errs = append(errs, field.Invalid(path.Index(i), address, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%d]`", family, i)))
		}
	}
	return errs
}

func families(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "ipFamilies")
	seen := sets.New[corev1.IPFamily]()
	for i, family := range spec.IPFamilies {
		if family != corev1.IPv4Protocol && family != corev1.IPv6Protocol {
			errs = append(errs, field.NotSupported(path.Index(i), family, []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}))
		}
		if seen.Has(family) {
			errs = append(errs, field.Duplicate(path.Index(i), family))
		}
		seen.Insert(family)
	}
	if policy := spec.IPFamilyPolicy; policy != nil {
		switch *policy {
		case corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack:
		default:
			errs = append(errs, field.NotSupported(field.NewPath("spec", "ipFamilyPolicy"), policy, []corev1.IPFamilyPolicy{
				corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack,
			}))
		}
	}
	return errs
}

// addressed reports whether a service has addresses both before and after an update, so that they
// must stay.
func addressed(s, old *corev1.Service) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && old.Spec.Type != corev1.ServiceTypeExternalName
}

func singleStack(spec *corev1.ServiceSpec) bool {
	return spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
}

// ClusterIPsUpdate allows a service to gain or lose its second address, but never to change one.
func ClusterIPsUpdate(s, old *corev1.Service) field.ErrorList {
	if !addressed(s, old) || Headless(s) && Headless(old) {
		return nil
	}
	var errs field.ErrorList
	path, now, before := field.NewPath("spec", "clusterIPs"), s.Spec.ClusterIPs, old.Spec.ClusterIPs
	if len(now) == len(before) {
		for i := range before {
			if now[i] != before[i] {
				errs = append(errs, field.Invalid(path.Index(i), now, Unchangeable))
			}
		}
		return errs
	}
	switch {
	case len(now) == 0:
		errs = append(errs, field.Invalid(path.Index(0), now, "primary clusterIP can not be unset"))
	case len(before) > 0 && now[0] != before[0]:
		errs = append(errs, field.Invalid(path.Index(0), now, Unchangeable))
	}
	if len(now) == 1 && len(before) > 1 && !singleStack(&s.Spec) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), s.Spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary clusterIP"))
	}
	return errs
}

// IpFamiliesUpdate makes the same check for the address families.
func IpFamiliesUpdate(s, old *corev1.Service) field.ErrorList {
	if !addressed(s, old) || Headless(s) || Headless(old) {
		return nil
	}
	var errs field.ErrorList
	path, now, before := field.NewPath("spec", "ipFamilies").Index(0), s.Spec.IPFamilies, old.Spec.IPFamilies
	if len(now) == len(before) {
		for i := range before {
			if now[i] != before[i] {
				errs = append(errs, field.Invalid(path, now, Unchangeable))
			}
		}
		return errs
	}
	if len(now) < len(before) && len(s.Spec.ClusterIPs) == 0 {
		errs = append(errs, field.Invalid(path, now, "primary ipFamily can not be unset"))
	}
	if len(now) > 0 && len(before) > 0 && now[0] != before[0] {
		errs = append(errs, field.Invalid(path, s.Spec.ClusterIPs, Unchangeable))
	}
	if len(now) == 1 && len(before) > 1 && !singleStack(&s.Spec) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), s.Spec.IPFamilyPolicy,
			"must be set to 'SingleStack' when releasing the secondary ipFamily"))
	}
	return errs
}
