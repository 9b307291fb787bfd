package network

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// IPAddress validates the record of an allocated address, whose name is the address.
func IPAddress(a *networkingv1.IPAddress) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&a.ObjectMeta, false, addressName, field.NewPath("metadata"))
	path, ref := field.NewPath("spec", "parentRef"), a.Spec.ParentRef
	if ref == nil {
		return append(errs, field.Required(path, ""))
	}
	if ref.Group != "" {
		errs = append(errs, invalid(path.Child("group"), ref.Group, validation.IsDNS1123Subdomain(ref.Group))...)
	}
	errs = append(errs, segment(path.Child("resource"), ref.Resource)...)
	errs = append(errs, segment(path.Child("name"), ref.Name)...)
	if ref.Namespace != "" {
		errs = append(errs, invalid(path.Child("namespace"), ref.Namespace, content.IsPathSegmentName(ref.Namespace))...)
	}
	return errs
}

func addressName(name string, _ bool) []string {
	var messages []string
	for _, err := range validation.IsValidIP(nil, name) {
		messages = append(messages, err.Detail)
	}
	return messages
}

// IPAddressUpdate validates an update of such a record, whose parent is immutable.
func IPAddressUpdate(a, old *networkingv1.IPAddress) field.ErrorList {
	return append(IPAddress(a), apivalidation.ValidateImmutableField(a.Spec.ParentRef, old.Spec.ParentRef, field.NewPath("spec", "parentRef"))...)
}

// ServiceCIDR validates a range of service addresses.
func ServiceCIDR(c *networkingv1.ServiceCIDR) field.ErrorList {
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

// ServiceCIDRUpdate validates an update of a range: it may only gain the other
// address family.
func ServiceCIDRUpdate(c, old *networkingv1.ServiceCIDR) field.ErrorList {
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
