package policy

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestBudgetGenerations checks that changes of the spec are counted, and only those.
func TestBudgetGenerations(t *testing.T) {
	s := PodDisruptionBudget()
	b := &policyv1.PodDisruptionBudget{Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 9}}
	if s.PrepareForCreate(b); b.Generation != 1 || b.Status.DisruptionsAllowed != 0 {
		t.Errorf("new budget: got %+v", b)
	}
	same := b.DeepCopy()
	same.Labels, same.Status.DisruptionsAllowed = map[string]string{"a": "b"}, 5
	if s.Update.Prepare(same, b); same.Generation != 1 || same.Status.DisruptionsAllowed != 0 {
		t.Errorf("update of its labels: got %+v", same)
	}
	changed := b.DeepCopy()
	changed.Spec.MinAvailable = new(intstr.FromInt32(1))
	if s.Update.Prepare(changed, b); changed.Generation != 2 {
		t.Errorf("change of its spec: got %+v", changed)
	}
	status := changed.DeepCopy()
	status.Spec.MinAvailable, status.Status.DisruptionsAllowed = nil, 5
	if s.Subresources["status"].Prepare(status, changed); status.Generation != 2 || status.Spec.MinAvailable == nil || status.Status.DisruptionsAllowed != 5 {
		t.Errorf("status update: got %+v", status)
	}
}
