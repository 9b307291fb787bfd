package strategy

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

func ingress() *kinds.Definition {
	specStatus := specStatusOf(func(i *networkingv1.Ingress) (*networkingv1.IngressSpec, *networkingv1.IngressStatus) {
		return &i.Spec, &i.Status
	})
	return of[*networkingv1.Ingress]{
		Level:    kinds.Full,
		Create:   specStatus.begin,
		Validate: network.Ingress,
		Update:   change[*networkingv1.Ingress]{Prepare: specStatus.keepStatus, Validate: network.IngressUpdate},
		Subresources: map[string]change[*networkingv1.Ingress]{"status": {
			Prepare: specStatus.keepSpec, Validate: network.IngressStatus,
		}},
		CreationWarnings: func(i *networkingv1.Ingress) []string {
			if _, ok := i.Annotations[network.AnnotationIngressClass]; !ok || i.Spec.IngressClassName != nil {
				return nil
			}
			return []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}
		},
	}.strategy()
}

func ingressClass() *kinds.Definition {
	return of[*networkingv1.IngressClass]{
		Level:    kinds.Full,
		Default:  defaults.IngressClass,
		Create:   func(c *networkingv1.IngressClass) { c.Generation = 1 },
		Validate: network.IngressClass,
		Update: change[*networkingv1.IngressClass]{
			Prepare: func(c, old *networkingv1.IngressClass) {
				if !apiequality.Semantic.DeepEqual(c.Spec, old.Spec) {
					c.Generation = old.Generation + 1
				}
			},
			Validate: network.IngressClassUpdate,
		},
	}.strategy()
}

func networkPolicy() *kinds.Definition {
	return of[*networkingv1.NetworkPolicy]{
		Level:    kinds.Full,
		Default:  defaults.NetworkPolicy,
		Create:   func(p *networkingv1.NetworkPolicy) { p.Generation = 1 },
		Validate: network.NetworkPolicy,
		Update: change[*networkingv1.NetworkPolicy]{
			Prepare: func(p, old *networkingv1.NetworkPolicy) {
				if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
					p.Generation = old.Generation + 1
				}
			},
			Validate: network.NetworkPolicyUpdate,
		},
		Warnings: networkPolicyWarnings,
	}.strategy()
}

func networkPolicyWarnings(p *networkingv1.NetworkPolicy) []string {
	var warnings []string
	peers := func(peers []networkingv1.NetworkPolicyPeer, path *field.Path) {
		for i, peer := range peers {
			if peer.IPBlock == nil {
				continue
			}
			at := path.Index(i).Child("ipBlock")
			warnings = append(warnings, cidrWarnings(at.Child("cidr"), peer.IPBlock.CIDR)...)
			for n, except := range peer.IPBlock.Except {
				warnings = append(warnings, cidrWarnings(at.Child("except").Index(n), except)...)
			}
		}
	}
	for i, rule := range p.Spec.Ingress {
		peers(rule.From, field.NewPath("spec", "ingress").Index(i).Child("from"))
	}
	for i, rule := range p.Spec.Egress {
		peers(rule.To, field.NewPath("spec", "egress").Index(i).Child("to"))
	}
	return warnings
}

// ipAddress has no generation: its spec never changes.
func ipAddress() *kinds.Definition {
	return of[*networkingv1.IPAddress]{
		Level:    kinds.Full,
		Validate: network.IPAddress,
		Update:   change[*networkingv1.IPAddress]{Validate: network.IPAddressUpdate},
	}.strategy()
}

// serviceCIDR has no generation, as in Kubernetes.
func serviceCIDR() *kinds.Definition {
	return of[*networkingv1.ServiceCIDR]{
		Level:    kinds.Full,
		Create:   func(c *networkingv1.ServiceCIDR) { c.Status = networkingv1.ServiceCIDRStatus{} },
		Validate: network.ServiceCIDR,
		Update: change[*networkingv1.ServiceCIDR]{
			Prepare:  func(c, old *networkingv1.ServiceCIDR) { c.Status = *old.Status.DeepCopy() },
			Validate: network.ServiceCIDRUpdate,
		},
		Subresources: map[string]change[*networkingv1.ServiceCIDR]{"status": {
			Prepare: func(c, old *networkingv1.ServiceCIDR) {
				before := old.DeepCopy()
				c.Spec = before.Spec
				metav1.ResetObjectMetaForStatus(&c.ObjectMeta, &before.ObjectMeta)
			},
		}},
	}.strategy()
}

// Labels by which controllers mark addresses that they wrote, which are then in canonical form.
const (
	endpointsManagedBy  = "endpoints.kubernetes.io/managed-by"
	endpointsController = "endpoint-controller"
	slicesController    = "endpointslice-controller.k8s.io"
	mirroringController = "endpointslicemirroring-controller.k8s.io"
)

func endpoints() *kinds.Definition {
	return of[*corev1.Endpoints]{
		Level:               kinds.Full,
		Default:             defaults.Endpoints,
		Validate:            network.Endpoints,
		Update:              change[*corev1.Endpoints]{Validate: network.EndpointsUpdate},
		Warnings:            endpointsWarnings,
		AllowCreateOnUpdate: true,
	}.strategy()
}

func endpointsWarnings(e *corev1.Endpoints) []string {
	if e.Labels[endpointsManagedBy] == endpointsController {
		return nil
	}
	var warnings []string
	for i, subset := range e.Subsets {
		at := field.NewPath("subsets").Index(i)
		for n, address := range subset.Addresses {
			warnings = append(warnings, ipWarnings(at.Child("addresses").Index(n).Child("ip"), address.IP)...)
		}
		for n, address := range subset.NotReadyAddresses {
			warnings = append(warnings, ipWarnings(at.Child("notReadyAddresses").Index(n).Child("ip"), address.IP)...)
		}
	}
	return warnings
}

func endpointSlice() *kinds.Definition {
	return of[*discoveryv1.EndpointSlice]{
		Level:   kinds.Full,
		Default: defaults.EndpointSlice,
		Create: func(s *discoveryv1.EndpointSlice) {
			s.Generation = 1
			dropTopology(s, nil)
		},
		Validate: network.EndpointSlice,
		Update: change[*discoveryv1.EndpointSlice]{
			Prepare: func(s, old *discoveryv1.EndpointSlice) {
				a, b := s.DeepCopy(), old.DeepCopy()
				a.ObjectMeta, b.ObjectMeta = metav1.ObjectMeta{Labels: s.Labels}, metav1.ObjectMeta{Labels: old.Labels}
				a.TypeMeta, b.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
				if !apiequality.Semantic.DeepEqual(a, b) {
					s.Generation = old.Generation + 1
				}
				dropTopology(s, old)
			},
			Validate: network.EndpointSliceUpdate,
		},
		Warnings: endpointSliceWarnings,
		CreationWarnings: func(s *discoveryv1.EndpointSlice) []string {
			if s.AddressType != discoveryv1.AddressTypeFQDN {
				return nil
			}
			return []string{"spec.addressType: FQDN endpoints are deprecated"}
		},
	}.strategy()
}

// dropTopology drops the topology of older versions of the API, unless the endpoints are unchanged.
// A node name in the old topology is moved to its present field.
func dropTopology(s, old *discoveryv1.EndpointSlice) {
	if old != nil && apiequality.Semantic.DeepEqual(s.Endpoints, old.Endpoints) {
		return
	}
	known := map[string]bool{}
	if old != nil {
		for _, endpoint := range old.Endpoints {
			known[endpoint.DeprecatedTopology[corev1.LabelHostname]] = true
		}
	}
	for i := range s.Endpoints {
		endpoint := &s.Endpoints[i]
		name, ok := endpoint.DeprecatedTopology[corev1.LabelHostname]
		if ok && endpoint.NodeName == nil && known[name] && len(apivalidation.NameIsDNSSubdomain(name, false)) == 0 {
			endpoint.NodeName = &name
		}
		endpoint.DeprecatedTopology = nil
	}
}

func endpointSliceWarnings(s *discoveryv1.EndpointSlice) []string {
	by := s.Labels[discoveryv1.LabelManagedBy]
	if by == slicesController || by == mirroringController {
		return nil
	}
	var warnings []string
	for i := range s.Endpoints {
		for n, address := range s.Endpoints[i].Addresses {
			warnings = append(warnings, ipWarnings(field.NewPath("endpoints").Index(i).Child("addresses").Index(n), address)...)
		}
	}
	return warnings
}

// ipWarnings warns about an address that is not in canonical form. Validation rejects what is not
// an address at all.
func ipWarnings(path *field.Path, value string) []string {
	if netutils.ParseIPSloppy(value) == nil {
		return nil
	}
	return validation.GetWarningsForIP(path, value)
}

func cidrWarnings(path *field.Path, value string) []string {
	if _, _, err := netutils.ParseCIDRSloppy(value); err != nil {
		return nil
	}
	return validation.GetWarningsForCIDR(path, value)
}
