package namespaceexists

import (
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNamespaceExists(t *testing.T) {
	none := admissiontest.Pod(func(p *corev1.Pod) { p.Namespace = "none" })
	const missing = `namespaces "none" not found`
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"create", &admission.Request{Object: admissiontest.Pod()}, ""},
		{"create without the namespace", &admission.Request{Object: none}, missing},
		{"update without the namespace", &admission.Request{Verb: admission.Update, Object: none, Old: none}, missing},
		{"delete without the namespace", &admission.Request{Verb: admission.Delete, Old: none}, missing},
		{"a subresource without the namespace", &admission.Request{Object: none, Subresource: "eviction"}, missing},
		{"a namespace", &admission.Request{Object: admissiontest.Namespace("none", "")}, ""},
		{"a cluster-scoped object", &admission.Request{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := admissiontest.New()
			got := ""
			if _, err := w.Admit(t, tc.req, Plugin(w.Objects())); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
