package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestReplicaSet(t *testing.T) {
	set := func() *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: meta(), Spec: appsv1.ReplicaSetSpec{Selector: selector(), Template: pods()}}
	}
	type rs = *appsv1.ReplicaSet
	check(t, set, defaultReplicaSet, validateReplicaSet, append(templates(func(r rs) *corev1.PodTemplateSpec { return &r.Spec.Template }, "ReplicaSet"), []rule[rs]{
		{"negative numbers", func(r rs) { r.Spec.Replicas, r.Spec.MinReadySeconds = new(int32(-1)), -2 }, []string{
			"spec.replicas: Invalid value: -1: must be greater than or equal to 0", "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
		}},
		{"empty selector", func(r rs) { r.Spec.Selector = &metav1.LabelSelector{} }, []string{"spec.selector: Invalid value: {}: empty selector is invalid for deployment"}},
	}...))
	changed := set()
	defaultReplicaSet(changed)
	changed.Spec.Selector.MatchLabels = nil
	changed.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Exists"}}
	errortest.Exactly(t, validateReplicaSetUpdate(changed, set()), `spec.selector: Invalid value: {"matchExpressions":[{"key":"app","operator":"Exists"}]}: field is immutable`)
	changed.Status = appsv1.ReplicaSetStatus{Replicas: 2, FullyLabeledReplicas: 3, ReadyReplicas: 1, AvailableReplicas: 2}
	errortest.Exactly(t, validateReplicaSetStatus(changed, changed), "status.fullyLabeledReplicas: Invalid value: 3: cannot be greater than status.replicas",
		"status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas")
}
