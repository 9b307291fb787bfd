package networking

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

// NetworkPolicy defines the kind NetworkPolicy.
func NetworkPolicy() *kinds.Definition {
	return kinds.Of[*networkingv1.NetworkPolicy]{
		Columns:  networkPolicyColumns(),
		Level:    kinds.Full,
		Default:  defaultNetworkPolicy,
		Create:   func(p *networkingv1.NetworkPolicy) { p.Generation = 1 },
		Validate: validateNetworkPolicy,
		Update: kinds.ChangeOf[*networkingv1.NetworkPolicy]{
			Prepare: func(p, old *networkingv1.NetworkPolicy) {
				if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
					p.Generation = old.Generation + 1
				}
			},
			Validate: validateNetworkPolicyUpdate,
		},
		Warnings: networkPolicyWarnings,
	}.Definition()
}

func networkPolicyWarnings(p *networkingv1.NetworkPolicy) []string {
	var warnings []string
	peers := func(peers []networkingv1.NetworkPolicyPeer, path *field.Path) {
		for i, peer := range peers {
			if peer.IPBlock == nil {
				continue
			}
			at := path.Index(i).Child("ipBlock")
			warnings = append(warnings, network.CIDRWarnings(at.Child("cidr"), peer.IPBlock.CIDR)...)
			for n, except := range peer.IPBlock.Except {
				warnings = append(warnings, network.CIDRWarnings(at.Child("except").Index(n), except)...)
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

// defaultNetworkPolicy sets the defaults of a network policy: it covers ingress, and egress only if it has
// egress rules.
func defaultNetworkPolicy(p *networkingv1.NetworkPolicy) {
	ports := func(ports []networkingv1.NetworkPolicyPort) {
		for i := range ports {
			kinds.Fill(&ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range p.Spec.Ingress {
		ports(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		ports(p.Spec.Egress[i].Ports)
	}
	if len(p.Spec.PolicyTypes) > 0 {
		return
	}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(p.Spec.Egress) > 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

func networkPolicyColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]), columns.Age(),
	}, func(p *networkingv1.NetworkPolicy, now time.Time) []any {
		return []any{p.Name, metav1.FormatLabelSelector(&p.Spec.PodSelector), columns.AgeOf(p, now)}
	})
}
