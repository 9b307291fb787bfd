package podtemplate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestHash(t *testing.T) {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "1", "b": "2"}}}
	first := Hash(&template, nil)
	if again := Hash(template.DeepCopy(), nil); again != first {
		t.Errorf("got %q, then %q, want the same hash", first, again)
	}
	one := int32(1)
	if Hash(&template, &one) == first {
		t.Error("a collision does not change the hash")
	}
	other := template.DeepCopy()
	other.Spec.NodeName = "n"
	if Hash(other, nil) == first {
		t.Error("another template has the same hash")
	}
	if strings.Trim(first, "bcdfghjklmnpqrstvwxz2456789") != "" {
		t.Errorf("%q has letters that could make words", first)
	}
}
