package webhooks_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// FuzzAnswer has a webhook answer anything. UID in an answer stands for the right one. Neither plugin may
// crash, and a request that is refused must leave its object as it was.
func FuzzAnswer(f *testing.F) {
	const head = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":`
	for _, seed := range []string{
		"", "{", "null", "[]", head + `{"uid":"UID","allowed":true}}`, head + `{"uid":"UID","allowed":false,"status":{"code":-1,"reason":"x","details":{"causes":[{}]}}}}`,
		head + `{"uid":"UID","allowed":true,"patchType":"JSONPatch","patch":"W3sib3AiOiJhZGQiLCJwYXRoIjoiL21ldGFkYXRhL2xhYmVscy9hIiwidmFsdWUiOiJiIn1d"}}`,
		head + `{"uid":"UID","allowed":true,"warnings":["\u0000","a\nb"],"auditAnnotations":{"":"","a/b":"c"}}}`,
		strings.ReplaceAll(head, "/v1", "/v1beta1") + `{"allowed":true,"patch":"e30="}}`,
	} {
		f.Add(seed)
	}
	var answer atomic.Pointer[string]
	worlds := map[bool]*world{false: newWorld(f, false), true: newWorld(f, true)}
	for _, w := range worlds {
		w.answer("/x", func(rw http.ResponseWriter, _ *http.Request, q *asked, _ *admissionv1.AdmissionResponse) bool {
			_, _ = io.WriteString(rw, strings.ReplaceAll(*answer.Load(), "UID", string(q.UID)))
			return false
		})
		w.configure("c", w.everything("x"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		answer.Store(&text)
		for _, w := range worlds {
			pod := labelledPod()
			if _, err := w.Admit(t, &admission.Request{Object: pod}, w.plugin); err != nil && cmp.Diff(labelledPod(), pod) != "" {
				t.Errorf("a refused request left %+v", pod)
			}
		}
	})
}
