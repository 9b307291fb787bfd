// Package dualstack determines the address families of a service, and merges the addresses,
// families and ports that a client sent with what the service already has. The rules are
// Kubernetes' (pkg/registry/core/service/storage).
package dualstack

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

// Families are the address families of a cluster's services, the default one first.
type Families []corev1.IPFamily

// familyOf returns the family of an address.
func familyOf(address string) corev1.IPFamily {
	if netutils.IsIPv6String(address) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// FamiliesOf returns the families of a cluster's ranges of service addresses, in their order.
func FamiliesOf(ranges []netip.Prefix) Families {
	var families Families
	for _, prefix := range ranges {
		families = append(families, familyOf(prefix.Addr().String()))
	}
	return families
}

func other(family corev1.IPFamily) corev1.IPFamily {
	if family == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// Complete fills in the families and policy that a service leaves out, and what it keeps from
// before. old is the service before an update, nil for a new one. Afterwards the service lacks at
// most the addresses and ports themselves. Complete returns what is wrong, and changes nothing if
// anything is; a second call changes nothing and returns the same.
func (f Families) Complete(s, old *corev1.Service) field.ErrorList {
	completed := s.DeepCopy()
	if errs := f.complete(completed, old); len(errs) > 0 {
		return errs
	}
	s.Spec = completed.Spec
	return nil
}

func (f Families) complete(s, old *corev1.Service) field.ErrorList {
	if old != nil {
		keepGiven(s, old)
	}
	alignClusterIPs(s, old)
	spec := &s.Spec
	if spec.Type == corev1.ServiceTypeExternalName || old != nil && unchanged(s, old) {
		return nil
	}
	fillPolicy(s, old)
	before := old
	if before == nil {
		before = &corev1.Service{}
	}
	if errs := network.ServiceIPs(s, before); len(errs) > 0 {
		return errs
	}
	errs := shrink(spec, &before.Spec)
	errs = append(errs, single(spec)...)
	errs = append(errs, f.infer(spec)...)
	if len(errs) > 0 {
		return errs
	}
	anyFamilies := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if !anyFamilies {
		if errs := f.offered(spec); len(errs) > 0 {
			return errs
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{f[0]}
	}
	// A headless service without a selector may have both families, whatever the cluster has: its
	// endpoints are written by others.
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && (anyFamilies || len(f) == 2) {
		spec.IPFamilies = append(slices.Clip(spec.IPFamilies), other(spec.IPFamilies[0]))
	}
	return nil
}

// unchanged reports whether an update leaves a service that prefers two families with the ones it
// has: it gains or loses a family only on its own request, not because the cluster does.
func unchanged(s, old *corev1.Service) bool {
	prefers := func(policy *corev1.IPFamilyPolicy) bool {
		return policy != nil && *policy == corev1.IPFamilyPolicyPreferDualStack
	}
	now, before := &s.Spec, &old.Spec
	return now.Type == before.Type && now.Type != corev1.ServiceTypeExternalName &&
		prefers(now.IPFamilyPolicy) && (before.IPFamilyPolicy == nil || prefers(before.IPFamilyPolicy)) &&
		slices.Equal(now.ClusterIPs, before.ClusterIPs) && slices.Equal(now.IPFamilies, before.IPFamilies)
}

func fillPolicy(s, old *corev1.Service) {
	spec := &s.Spec
	if spec.IPFamilyPolicy != nil {
		return
	}
	policy := corev1.IPFamilyPolicySingleStack
	switch {
	case old != nil && old.Spec.IPFamilyPolicy != nil:
		policy = *old.Spec.IPFamilyPolicy
	case spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0:
		policy = corev1.IPFamilyPolicyRequireDualStack
	}
	spec.IPFamilyPolicy = &policy
}

// shrink drops the second family and address of a service that becomes single-stack. A client that
// drops them itself must say so in the policy too.
func shrink(now, before *corev1.ServiceSpec) field.ErrorList {
	if *now.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
		if len(now.ClusterIPs) > 1 && slices.Equal(now.ClusterIPs, before.ClusterIPs) {
			now.ClusterIPs = slices.Clone(now.ClusterIPs[:1])
		}
		if len(now.IPFamilies) > 1 && slices.Equal(now.IPFamilies, before.IPFamilies) {
			now.IPFamilies = slices.Clone(now.IPFamilies[:1])
		}
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "ipFamilyPolicy")
	if len(now.ClusterIPs) > 0 && len(now.ClusterIPs) < len(before.ClusterIPs) {
		errs = append(errs, field.Invalid(path, now.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP"))
	}
	if len(now.IPFamilies) > 0 && len(now.IPFamilies) < len(before.IPFamilies) {
		errs = append(errs, field.Invalid(path, now.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family"))
	}
	return errs
}

func single(spec *corev1.ServiceSpec) field.ErrorList {
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		return nil
	}
	var errs field.ErrorList
	path := field.NewPath("spec", "ipFamilyPolicy")
	const instead = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "
	if len(spec.ClusterIPs) == 2 {
		errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, instead+"cluster IPs are specified"))
	}
	if len(spec.IPFamilies) == 2 {
		errs = append(errs, field.Invalid(path, spec.IPFamilyPolicy, instead+"IP families are specified"))
	}
	return errs
}

// infer adds the families of addresses that a client chose without naming the families.
func (f Families) infer(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	for i, address := range spec.ClusterIPs {
		if address == corev1.ClusterIPNone || i < len(spec.IPFamilies) {
			continue
		}
		family := familyOf(address)
		if !slices.Contains(f, family) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", family)))
			continue
		}
		spec.IPFamilies = append(slices.Clip(spec.IPFamilies), family)
	}
	return errs
}

// offered checks that the cluster has the families that a service asks for.
func (f Families) offered(spec *corev1.ServiceSpec) field.ErrorList {
	var errs field.ErrorList
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && len(f) < 2 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range spec.IPFamilies {
		if !slices.Contains(f, family) {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	return errs
}
