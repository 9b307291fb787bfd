package apps

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestDeploymentGenerations checks that changes of annotations count as well, and that a status
// update cannot change labels.
func TestDeploymentGenerations(t *testing.T) {
	s := Deployment()
	old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 4, Labels: map[string]string{"a": "b"}}}
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		want   int64
	}{
		"a label":       {func(d *appsv1.Deployment) { d.Labels = map[string]string{"a": "c"} }, 4},
		"an annotation": {func(d *appsv1.Deployment) { d.Annotations = map[string]string{"a": "c"} }, 5},
		"the spec":      {func(d *appsv1.Deployment) { d.Spec.Paused = true }, 5},
		"both":          {func(d *appsv1.Deployment) { d.Spec.Paused, d.Annotations = true, map[string]string{"a": "c"} }, 5},
		"the status":    {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, 4},
	} {
		d := old.DeepCopy()
		tc.change(d)
		if s.Update.Prepare(d, old); d.Generation != tc.want || d.Status.Replicas != 0 {
			t.Errorf("change of %s: got %+v", name, d)
		}
	}
	d := old.DeepCopy()
	d.Labels, d.Spec.Paused, d.Status.Replicas = nil, true, 3
	if s.Subresources["status"].Prepare(d, old); d.Labels["a"] != "b" || d.Spec.Paused || d.Status.Replicas != 3 || d.Generation != 4 {
		t.Errorf("status update: got %+v", d)
	}
}

func TestDeploymentStrategies(t *testing.T) {
	half := intstr.FromString("50%")
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &half}}}}
	defaultDeployment(d)
	if r := d.Spec.Strategy.RollingUpdate; r.MaxSurge.StrVal != "50%" || r.MaxUnavailable.StrVal != "25%" {
		t.Errorf("got strategy %+v", r)
	}
	d = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}}
	defaultDeployment(d)
	if d.Spec.Strategy.RollingUpdate != nil {
		t.Errorf("got strategy %+v", d.Spec.Strategy)
	}
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{}
	if defaultDeployment(d); d.Spec.Strategy.RollingUpdate.MaxSurge.IntVal != 0 || d.Spec.Strategy.RollingUpdate.MaxUnavailable == nil {
		t.Errorf("a strategy that must not be there: got %+v", d.Spec.Strategy.RollingUpdate)
	}
	if d.Spec.Template.Spec.EnableServiceLinks != nil {
		t.Error("a template got service links, which only pods get")
	}
}
