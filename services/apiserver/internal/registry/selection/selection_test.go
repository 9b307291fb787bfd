package selection

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

// FuzzSelection parses selectors, and checks that the text of an accepted selector has the same
// meaning when it is parsed again.
func FuzzSelection(f *testing.F) {
	for _, labels := range []string{"", "a=b", "a in (b,c),!d", "a notin (b)", "a>1", "a==b,", "a in (", "!", "a/b/c=d", "-=x"} {
		for _, fields := range []string{"", "metadata.name=x", "spec.nodeName!=n,status.phase=Running", "a", `metadata.name=\`, `metadata.name=a\,b`} {
			f.Add(labels, fields)
		}
	}
	kind := scheme.For[*corev1.Pod](scheme.New())
	of := builtin.All(builtin.Config{})[kind.GroupVersionKind]
	of.Kind = kind
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default", Labels: map[string]string{"a": "b", "d": "1"}},
		Spec:       corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	f.Fuzz(func(t *testing.T, labels, selector string) {
		s, err := Parse(of, "default", metav1.ListOptions{LabelSelector: labels, FieldSelector: selector})
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Errorf("%q, %q: %v", labels, selector, err)
			}
			return
		}
		again, err := Parse(of, "default", metav1.ListOptions{LabelSelector: s.labels.String(), FieldSelector: s.fields.String()})
		if err != nil {
			t.Fatalf("%q, %q is read as %q, %q, which cannot be read: %v", labels, selector, s.labels, s.fields, err)
		}
		if s.Matches(pod) != again.Matches(pod) {
			t.Errorf("%q, %q selects otherwise than %q, %q", labels, selector, s.labels, s.fields)
		}
		// A narrower view must contain everything that is selected.
		if s.Matches(pod) && (s.view.Name != "" && s.view.Name != pod.Name || s.view.Scope != "" && s.view.Scope != kind.ScopeOf(pod)) {
			t.Errorf("%q, %q selects %s, which is not in its view %+v", labels, selector, pod.Name, s.view)
		}
		if s.fields.Matches(fields.Set{}) && s.fields.Empty() != again.fields.Empty() {
			t.Errorf("%q is read as %q", selector, s.fields)
		}
	})
}
