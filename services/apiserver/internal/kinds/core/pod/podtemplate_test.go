package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour)}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "b": "c"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i:1"}, {Name: "b", Image: "j"}}, NodeSelector: map[string]string{"disk": "ssd"}},
	}
	for _, tc := range []struct {
		name  string
		kind  *kinds.Definition
		obj   scheme.Object
		cells []any
	}{
		{"pod template", PodTemplate(), &corev1.PodTemplate{ObjectMeta: meta, Template: pods}, []any{"x", "a,b", "i:1,j", "app=web,b=c"}},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Cells(t, tc.kind, tc.obj, tc.cells) })
	}
}

func TestPodTemplateGenerations(t *testing.T) {
	obj := kindtest.Sample[*corev1.PodTemplate](t, PodTemplate())
	changed := obj.DeepCopy()
	changed.Template.Spec.Containers[0].Image = "other"
	kindtest.Generations(t, PodTemplate(), obj, changed)
}
