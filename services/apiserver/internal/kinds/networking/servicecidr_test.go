package networking

import (
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServiceCIDRParts checks that users write the ranges and the system writes the conditions.
func TestServiceCIDRParts(t *testing.T) {
	kind := ServiceCIDR()
	ready := networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: "Ready", Status: "True"}}}
	created := &networkingv1.ServiceCIDR{Status: ready}
	if kind.PrepareForCreate(created); created.Status.Conditions != nil {
		t.Errorf("created with %+v", created.Status)
	}
	old := &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24"}}, Status: ready}
	updated := &networkingv1.ServiceCIDR{Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24", "fd00::/64"}}}
	if kind.Update.Prepare(updated, old); len(updated.Status.Conditions) != 1 || len(updated.Spec.CIDRs) != 2 {
		t.Errorf("updated to %+v", updated)
	}
	status := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Status: networkingv1.ServiceCIDRStatus{}}
	if kind.Subresources["status"].Prepare(status, old); status.Labels != nil || len(status.Spec.CIDRs) != 1 || status.Status.Conditions != nil {
		t.Errorf("the status became %+v", status)
	}
}
