package systemobjects_test

import (
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/systemobjects"
)

// TestPreferDualStackStaysSingle checks that a service that prefers two families stays single-stack
// when its cluster gets the second one.
func TestPreferDualStackStaysSingle(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, func(c *registrytest.Config) {
		registrytest.DualStack(c)
		c.ServiceCIDRs = c.ServiceCIDRs[:1]
	})
	registrytest.Create(w, "default", registrytest.Service("s", func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack) }))
	w = w.Another(registrytest.DualStack)
	if err := w.Objects.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cidr := registrytest.Get[*networkingv1.ServiceCIDR](w, "", "kubernetes"); !slices.Equal(cidr.Spec.CIDRs, []string{"10.7.0.0/24", "fd00:7::/112"}) {
		t.Errorf("the default range is %v", cidr.Spec.CIDRs)
	}
	s, err := registrytest.Update(w, "default", "s", "", func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
	if err != nil || len(s.Spec.ClusterIPs) != 1 || len(s.Spec.IPFamilies) != 1 {
		t.Errorf("after another change the service is %+v: %v", s, err)
	}
	s, err = registrytest.Update(w, "default", "s", "", func(s *corev1.Service) { s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack) })
	if err != nil || len(s.Spec.ClusterIPs) != 2 {
		t.Errorf("after its own request the service is %+v: %v", s, err)
	}
}

func TestDefaultRange(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t, registrytest.DualStack)
	cidr := registrytest.Get[*networkingv1.ServiceCIDR](w, "", "kubernetes")
	if ready := meta.FindStatusCondition(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady); ready == nil || ready.Status != metav1.ConditionTrue || ready.Message != "Kubernetes default Service CIDR is ready" {
		t.Errorf("the range's conditions are %+v", cidr.Status.Conditions)
	}
	if cidr.Generation != 0 || !slices.Equal(cidr.Spec.CIDRs, []string{"10.7.0.0/24", "fd00:7::/112"}) {
		t.Errorf("the range is %+v", cidr)
	}
	// An apiserver with other ranges leaves it alone, and so does one that sees that it is not
	// ready.
	other := w.Another(func(c *registrytest.Config) {
		c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/25")}
	})
	if err := other.Objects.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := registrytest.Update(w, "", "kubernetes", "status", func(c *networkingv1.ServiceCIDR) { c.Status.Conditions[0].Status = metav1.ConditionFalse }); err != nil {
		t.Fatal(err)
	}
	if err := w.Objects.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := registrytest.Get[*networkingv1.ServiceCIDR](w, "", "kubernetes")
	if !slices.Equal(after.Spec.CIDRs, cidr.Spec.CIDRs) || !meta.IsStatusConditionFalse(after.Status.Conditions, networkingv1.ServiceCIDRConditionReady) {
		t.Errorf("the range became %+v", after)
	}
	for name, ranges := range map[string][]string{"one family": {"10.0.0.0/24", "10.1.0.0/24"}, "three": {"10.0.0.0/24", "fd00::/112", "fd01::/112"}, "too small": {"10.0.0.0/31"}} {
		config := w.Objects.Config
		config.ServiceCIDRs = nil
		for _, text := range ranges {
			config.ServiceCIDRs = append(config.ServiceCIDRs, netip.MustParsePrefix(text))
		}
		if _, err := systemobjects.New(config); err == nil {
			t.Errorf("%s: the ranges were accepted", name)
		}
	}
}
