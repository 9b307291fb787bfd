package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// validateServiceCIDR validates a range of service addresses.
func validateServiceCIDR(c *networkingv1.ServiceCIDR) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, serviceCIDRs(&c.Spec)...)
}

func serviceCIDRs(spec *networkingv1.ServiceCIDRSpec) field.ErrorList {
	path, cidrs := field.NewPath("spec", "cidrs"), spec.CIDRs
	switch {
	case len(cidrs) == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case len(cidrs) > 2:
		return field.ErrorList{field.Invalid(path, spec, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, text := range cidrs {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), text)...)
	}
	if len(cidrs) == 2 {
		family := netutils.IPFamilyOfCIDRString(cidrs[0])
		if family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(cidrs[1]) {
			errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}

// validateServiceCIDRUpdate validates an update of a range: it may only gain the other
// address family.
func validateServiceCIDRUpdate(c, old *networkingv1.ServiceCIDR) field.ErrorList {
	var errs field.ErrorList
	path, now, before := field.NewPath("spec", "cidrs"), c.Spec.CIDRs, old.Spec.CIDRs
	grown := len(before) == 1 && len(now) == 2
	if len(now) != len(before) && !grown {
		return field.ErrorList{field.Invalid(path, now, apivalidation.FieldImmutableErrorMsg)}
	}
	for i, text := range before {
		if now[i] != text {
			errs = append(errs, field.Invalid(path.Index(i), now[i], apivalidation.FieldImmutableErrorMsg))
		}
	}
	if grown {
		errs = append(errs, serviceCIDRs(&c.Spec)...)
	}
	return errs
}
