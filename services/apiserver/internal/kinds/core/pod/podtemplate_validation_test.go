package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", Namespace: "default"} }

func web() map[string]string { return map[string]string{"app": "web"} }

func pods() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: web()},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "b"}}},
	}
}

func TestPodTemplate(t *testing.T) {
	p := &corev1.PodTemplate{ObjectMeta: meta(), Template: pods()}
	defaultPodTemplateObject(p)
	errortest.Exactly(t, validatePodTemplate(p))
	p.Name, p.Template.Spec.Containers[0].Name = "", "A"
	errortest.Contain(t, validatePodTemplateUpdate(p, p), "metadata.name: Required value: name or generateName is required", `template.spec.containers[0].name: Invalid value: "A"`)
}
