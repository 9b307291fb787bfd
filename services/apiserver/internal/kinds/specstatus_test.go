package kinds_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// TestSpecStatus checks who changes what: users the spec, controllers the status.
func TestSpecStatus(t *testing.T) {
	rules := kinds.SpecStatusOf(func(r *appsv1.ReplicaSet) (*appsv1.ReplicaSetSpec, *appsv1.ReplicaSetStatus) {
		return &r.Spec, &r.Status
	})
	set := func(wanted, present int32) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Generation: 3},
			Spec:       appsv1.ReplicaSetSpec{Replicas: &wanted, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{}}}},
			Status:     appsv1.ReplicaSetStatus{Replicas: present},
		}
	}
	for _, tc := range []struct {
		name                string
		change              func(obj, old *appsv1.ReplicaSet)
		sent                *appsv1.ReplicaSet
		generation          int64
		wanted, statusCount int32
	}{
		{"new", func(obj, _ *appsv1.ReplicaSet) { rules.Begin(obj) }, set(2, 2), 1, 2, 0},
		{"the same spec", rules.KeepStatus, set(1, 2), 3, 1, 1},
		{"another spec", rules.KeepStatus, set(2, 2), 4, 2, 1},
		{"a status", rules.KeepSpec, set(2, 2), 3, 1, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := set(1, 1)
			old.Spec.Template.Spec.NodeSelector = nil // No difference to an empty one.
			tc.change(tc.sent, old)
			if tc.sent.Generation != tc.generation || *tc.sent.Spec.Replicas != tc.wanted || tc.sent.Status.Replicas != tc.statusCount {
				t.Errorf("got generation %d, %d replicas wanted and %d present, want %d, %d and %d",
					tc.sent.Generation, *tc.sent.Spec.Replicas, tc.sent.Status.Replicas, tc.generation, tc.wanted, tc.statusCount)
			}
			*tc.sent.Spec.Replicas = 9
			if *old.Spec.Replicas != 1 {
				t.Error("the stored object shares memory with the sent one")
			}
		})
	}
}

// TestKeepMetadata checks that an update of the status leaves what users write in the metadata.
func TestKeepMetadata(t *testing.T) {
	old := &metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Finalizers: []string{"a/b"}, OwnerReferences: []metav1.OwnerReference{{Name: "o"}}}
	sent := &metav1.ObjectMeta{Labels: map[string]string{"a": "c"}, Annotations: map[string]string{"d": "e"}, ResourceVersion: "2"}
	kinds.KeepMetadata(sent, old)
	if sent.Labels["a"] != "b" || len(sent.Finalizers) != 1 || len(sent.OwnerReferences) != 1 || len(sent.Annotations) != 0 || sent.ResourceVersion != "2" {
		t.Errorf("got %+v", sent)
	}
}
