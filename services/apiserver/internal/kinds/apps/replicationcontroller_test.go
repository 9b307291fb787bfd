package apps

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestDefaultReplicationController(t *testing.T) {
	labels := map[string]string{"app": "web"}
	rc := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}}
	defaultReplicationController(rc)
	if *rc.Spec.Replicas != 1 || !cmp.Equal(rc.Spec.Selector, labels) || !cmp.Equal(rc.Labels, labels) || rc.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("got controller %+v", rc)
	}
	rc.Labels["other"] = "x"
	if len(labels) != 1 || len(rc.Spec.Selector) != 1 {
		t.Error("labels, selector and template share a map")
	}
	own := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"c": "d"}, Template: rc.Spec.Template}}
	defaultReplicationController(own)
	if own.Labels["a"] != "b" || len(own.Labels) != 1 || own.Spec.Selector["c"] != "d" || len(own.Spec.Selector) != 1 {
		t.Errorf("the explicit values became %+v", own)
	}
	defaultReplicationController(&corev1.ReplicationController{})
}

func TestReplicationControllerGenerations(t *testing.T) {
	obj := kindtest.Sample[*corev1.ReplicationController](t, ReplicationController())
	changed := obj.DeepCopy()
	changed.Spec.Replicas = new(int32(9))
	kindtest.Generations(t, ReplicationController(), obj, changed)
}

func TestReplicationControllerFields(t *testing.T) {
	rc := &corev1.ReplicationController{Status: corev1.ReplicationControllerStatus{Replicas: 3}}
	if got := ReplicationController().Fields(rc); got["status.replicas"] != "3" {
		t.Errorf("got fields %v", got)
	}
}

func TestReplicationControllerWarnings(t *testing.T) {
	old, now := &corev1.ReplicationController{}, &corev1.ReplicationController{}
	old.Spec.Template = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: map[string]string{"beta.kubernetes.io/os": "x"}}}
	if got := ReplicationController().Update.Warnings(now, old); got != nil {
		t.Errorf("an unchanged controller: got warnings %q", got)
	}
	now.Generation++
	if got := ReplicationController().Update.Warnings(now, old); len(got) != 1 {
		t.Errorf("got warnings %q, want the one about the old template", got)
	}
	if got := ReplicationController().Warnings(&corev1.ReplicationController{}); got != nil {
		t.Errorf("got %q", got)
	}
}
