package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// TestReplicasThatAreUnset checks that a workload without replicas has a scale of 0, and can get some.
func TestReplicasThatAreUnset(t *testing.T) {
	set, replicas := &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{Replicas: 2}}, StatefulSet().Replicas
	if found, err := replicas.Scale(set); err != nil || found.Wanted != 0 || found.Present != 2 {
		t.Errorf("the scale is %+v: %v", found, err)
	}
	replicas.Set(set, 4)
	if found, err := replicas.Scale(set); err != nil || found.Wanted != 4 || *set.Spec.Replicas != 4 {
		t.Errorf("the scale became %+v: %v", found, err)
	}
}
