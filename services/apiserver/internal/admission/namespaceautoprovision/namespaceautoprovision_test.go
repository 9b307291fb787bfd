package namespaceautoprovision

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNamespaceAutoProvision(t *testing.T) {
	pod := admissiontest.Pod(func(p *corev1.Pod) { p.Namespace = "new" })
	for _, tc := range []struct {
		name    string
		req     *admission.Request
		created bool
	}{
		{"create", &admission.Request{Object: pod}, true},
		{"a subresource", &admission.Request{Object: pod, Subresource: "eviction"}, true},
		{"a dry run", &admission.Request{Object: pod, DryRun: true}, false},
		{"update", &admission.Request{Verb: admission.Update, Object: pod, Old: pod}, false},
		{"delete", &admission.Request{Verb: admission.Delete, Old: pod}, false},
		{"a namespace", &admission.Request{Object: admissiontest.Namespace("new", "")}, false},
		{"a cluster-scoped object", &admission.Request{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New()
			for range 2 { // An existing namespace is left alone.
				if _, err := w.Admit(t, tc.req, Plugin(w.Objects())); err != nil {
					t.Fatal(err)
				}
			}
			_, err := admission.Live[*corev1.Namespace](t.Context(), w.Objects(), "", "new")
			if apierrors.IsNotFound(err) == tc.created {
				t.Errorf("looking for the namespace: %v", err)
			}
		})
	}
}

// TestRaceAndRefusal: another request may have created the namespace, and the creation may be refused.
func TestRaceAndRefusal(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want string
	}{
		{"another was faster", apierrors.NewAlreadyExists(corev1.Resource("namespaces"), "new"), ""},
		{"refused", apierrors.NewForbidden(corev1.Resource("namespaces"), "new", nil), `namespaces "new" is forbidden: <nil>`},
		{"invalid", apierrors.NewBadRequest("no"), `pods "p" is forbidden: no`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New()
			w.Refuse(tc.err)
			_, err := w.Admit(t, &admission.Request{Object: admissiontest.Pod(func(p *corev1.Pod) { p.Namespace = "new" })}, Plugin(w.Objects()))
			admissiontest.Refused(t, err, tc.want)
		})
	}
}
