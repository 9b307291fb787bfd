package resource

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestGenerations(t *testing.T) {
	t.Run("device class", func(t *testing.T) {
		obj := kindtest.Sample[*resourcev1.DeviceClass](t, DeviceClass())
		changed := obj.DeepCopy()
		changed.Spec.ExtendedResourceName = new("example.com/gpu")
		kindtest.Generations(t, DeviceClass(), obj, changed)
	})
	t.Run("taint rule", func(t *testing.T) {
		obj := kindtest.Sample[*resourcev1.DeviceTaintRule](t, DeviceTaintRule())
		changed := obj.DeepCopy()
		changed.Spec.Taint.Value = "other"
		kindtest.Generations(t, DeviceTaintRule(), obj, changed)
	})
}

// TestClaimParts checks that users write what a claim asks for, and the scheduler writes the status.
func TestClaimParts(t *testing.T) {
	kind := ResourceClaim()
	reserved := resourcev1.ResourceClaimStatus{ReservedFor: []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "1"}}}
	created := &resourcev1.ResourceClaim{Status: reserved}
	if kind.PrepareForCreate(created); created.Status.ReservedFor != nil {
		t.Errorf("created with %+v", created.Status)
	}
	old := &resourcev1.ResourceClaim{Status: reserved}
	updated := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	if kind.Update.Prepare(updated, old); len(updated.Status.ReservedFor) != 1 || updated.Labels["a"] != "b" {
		t.Errorf("updated to %+v", updated)
	}
}
