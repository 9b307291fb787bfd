package networking

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestGenerations(t *testing.T) {
	t.Run("ingress", func(t *testing.T) {
		obj := kindtest.Sample[*networkingv1.Ingress](t, Ingress())
		changed := obj.DeepCopy()
		changed.Spec.IngressClassName = new("another")
		kindtest.Generations(t, Ingress(), obj, changed)
	})
	t.Run("ingress class", func(t *testing.T) {
		obj := kindtest.Sample[*networkingv1.IngressClass](t, IngressClass())
		changed := obj.DeepCopy()
		changed.Spec.Controller = "example.com/another"
		kindtest.Generations(t, IngressClass(), obj, changed)
	})
	t.Run("network policy", func(t *testing.T) {
		obj := kindtest.Sample[*networkingv1.NetworkPolicy](t, NetworkPolicy())
		changed := obj.DeepCopy()
		changed.Spec.Ingress = append(changed.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{})
		kindtest.Generations(t, NetworkPolicy(), obj, changed)
	})
}
