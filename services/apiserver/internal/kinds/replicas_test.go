package kinds_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

func scaled() *kinds.Replicas {
	return kinds.ReplicasOf(func(r *appsv1.ReplicaSet) (**int32, int32, *metav1.LabelSelector) {
		return &r.Spec.Replicas, r.Status.Replicas, r.Spec.Selector
	})
}

// TestReplicasOf checks what a scale shows of an object, and what it sets.
func TestReplicasOf(t *testing.T) {
	r := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}
	r.Status.Replicas = 2
	for _, wanted := range []int32{0, 5} {
		if wanted > 0 {
			scaled().Set(r, wanted)
		}
		scale, err := scaled().Scale(r)
		if err != nil || scale.Wanted != wanted || scale.Present != 2 || scale.Selector.String() != "a=b" {
			t.Errorf("got %+v, %v; want %d of 2 with a=b", scale, err, wanted)
		}
	}
	if path := scaled().Path; !cmp.Equal(path, []string{"spec", "replicas"}) {
		t.Errorf("got the path %q", path)
	}
}
