package controller

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSameReference: two references are the same if every field is.
func TestSameReference(t *testing.T) {
	yes, no := true, false
	reference := func(change func(*metav1.OwnerReference)) *metav1.OwnerReference {
		r := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "a", UID: "1", Controller: &yes}
		change(r)
		return r
	}
	references := []*metav1.OwnerReference{
		nil,
		reference(func(*metav1.OwnerReference) {}),
		reference(func(r *metav1.OwnerReference) { r.APIVersion = "apps/v2" }),
		reference(func(r *metav1.OwnerReference) { r.Kind = "Job" }),
		reference(func(r *metav1.OwnerReference) { r.Name = "b" }),
		reference(func(r *metav1.OwnerReference) { r.UID = "2" }),
		reference(func(r *metav1.OwnerReference) { r.Controller = nil }),
		reference(func(r *metav1.OwnerReference) { r.Controller = &no }),
		reference(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = &yes }),
		reference(func(r *metav1.OwnerReference) { r.BlockOwnerDeletion = &no }),
	}
	for _, a := range references {
		for _, b := range references {
			if got, want := sameReference(a, b.DeepCopy()), equality.Semantic.DeepEqual(a, b); got != want {
				t.Errorf("%v and %v are the same: %v, want %v", a, b, got, want)
			}
		}
	}
}
