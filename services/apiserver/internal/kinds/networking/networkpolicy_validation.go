package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validateNetworkPolicy validates a network policy.
func validateNetworkPolicy(p *networkingv1.NetworkPolicy) field.ErrorList {
	return networkPolicy(p, &tolerated{})
}

// validateNetworkPolicyUpdate validates an update of a network policy.
func validateNetworkPolicyUpdate(p, old *networkingv1.NetworkPolicy) field.ErrorList {
	may := &tolerated{}
	if len(metav1validation.ValidateLabelSelector(&old.Spec.PodSelector, may.selectors, nil)) > 0 {
		may.selectors.AllowInvalidLabelValueInSelector = true
	}
	keep := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, peer := range peers {
			if peer.IPBlock != nil {
				may.cidrs = append(append(may.cidrs, peer.IPBlock.CIDR), peer.IPBlock.Except...)
			}
		}
	}
	for _, rule := range old.Spec.Ingress {
		keep(rule.From)
	}
	for _, rule := range old.Spec.Egress {
		keep(rule.To)
	}
	return networkPolicy(p, may)
}

// tolerated lists the invalid values that a policy may keep because it had them before the rule
// existed.
type tolerated struct {
	selectors metav1validation.LabelSelectorValidationOptions
	cidrs     []string
}

func networkPolicy(p *networkingv1.NetworkPolicy, may *tolerated) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&p.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path, spec := field.NewPath("spec"), &p.Spec
	errs = append(errs, metav1validation.ValidateLabelSelector(&spec.PodSelector, may.selectors, path.Child("podSelector"))...)
	for i, rule := range spec.Ingress {
		at := path.Child("ingress").Index(i)
		errs = append(errs, policyPorts(rule.Ports, at.Child("ports"))...)
		errs = append(errs, policyPeers(rule.From, at.Child("from"), may)...)
	}
	for i, rule := range spec.Egress {
		at := path.Child("egress").Index(i)
		errs = append(errs, policyPorts(rule.Ports, at.Child("ports"))...)
		errs = append(errs, policyPeers(rule.To, at.Child("to"), may)...)
	}
	types := path.Child("policyTypes")
	if len(spec.PolicyTypes) > 2 {
		return append(errs, field.Invalid(types, &spec.PolicyTypes, "may not specify more than two policyTypes"))
	}
	for i, kind := range spec.PolicyTypes {
		if kind != networkingv1.PolicyTypeIngress && kind != networkingv1.PolicyTypeEgress {
			errs = append(errs, field.NotSupported(types.Index(i), kind, []networkingv1.PolicyType{
				networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress,
			}))
		}
	}
	return errs
}

func policyPorts(ports []networkingv1.NetworkPolicyPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, port := range ports {
		at := path.Index(i)
		if p := port.Protocol; p != nil && *p != corev1.ProtocolTCP && *p != corev1.ProtocolUDP && *p != corev1.ProtocolSCTP {
			errs = append(errs, field.NotSupported(at.Child("protocol"), *p, []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}))
		}
		end := at.Child("endPort")
		switch {
		case port.Port == nil:
			if port.EndPort != nil {
				errs = append(errs, field.Invalid(end, *port.EndPort, "may not be specified when `port` is not specified"))
			}
		case port.Port.Type == intstr.String:
			if port.EndPort != nil {
				errs = append(errs, field.Invalid(end, *port.EndPort, "may not be specified when `port` is non-numeric"))
			}
			errs = append(errs, network.PortNumOrName(at.Child("port"), *port.Port)...)
		default:
			errs = append(errs, network.PortNumOrName(at.Child("port"), *port.Port)...)
			if port.EndPort == nil {
				continue
			}
			if *port.EndPort < port.Port.IntVal {
				errs = append(errs, field.Invalid(end, *port.EndPort, "must be greater than or equal to `port`"))
			}
			errs = append(errs, values.Invalid(end, *port.EndPort, validation.IsValidPortNum(int(*port.EndPort)))...)
		}
	}
	return errs
}

func policyPeers(peers []networkingv1.NetworkPolicyPeer, path *field.Path, may *tolerated) field.ErrorList {
	var errs field.ErrorList
	for i, peer := range peers {
		at := path.Index(i)
		if peer.PodSelector != nil {
			errs = append(errs, metav1validation.ValidateLabelSelector(peer.PodSelector, may.selectors, at.Child("podSelector"))...)
		}
		if peer.NamespaceSelector != nil {
			errs = append(errs, metav1validation.ValidateLabelSelector(peer.NamespaceSelector, may.selectors, at.Child("namespaceSelector"))...)
		}
		if peer.IPBlock != nil {
			errs = append(errs, ipBlock(peer.IPBlock, at.Child("ipBlock"), may)...)
		}
		selected := peer.PodSelector != nil || peer.NamespaceSelector != nil
		switch {
		case !selected && peer.IPBlock == nil:
			errs = append(errs, field.Required(at, "must specify a peer"))
		case selected && peer.IPBlock != nil:
			errs = append(errs, field.Forbidden(at, "may not specify both ipBlock and another peer"))
		}
	}
	return errs
}

func ipBlock(block *networkingv1.IPBlock, path *field.Path, may *tolerated) field.ErrorList {
	if block.CIDR == "" {
		return field.ErrorList{field.Required(path.Child("cidr"), "")}
	}
	errs := network.Cidr(path.Child("cidr"), block.CIDR, may.cidrs)
	_, whole, err := netutils.ParseCIDRSloppy(block.CIDR)
	if err != nil {
		return errs
	}
	bits, _ := whole.Mask.Size()
	for i, text := range block.Except {
		at := path.Child("except").Index(i)
		errs = append(errs, network.Cidr(at, text, may.cidrs)...)
		_, except, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			continue
		}
		if exceptBits, _ := except.Mask.Size(); !whole.Contains(except.IP) || bits >= exceptBits {
			errs = append(errs, field.Invalid(at, text, "must be a strict subset of `cidr`"))
		}
	}
	return errs
}
