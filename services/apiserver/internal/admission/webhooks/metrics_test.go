package webhooks_test

import (
	"net/http"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// series returns how many series have a label "name" of the value.
func (w *world) series(name string) (count int) {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "name" && label.GetValue() == name {
					count++
				}
			}
		}
	}
	return count
}

// TestSeriesEnd checks that the series of a webhook end with it, those of another of the same name in a further
// configuration do not, and that a call that is under way meanwhile leaves none.
func TestSeriesEnd(t *testing.T) {
	for _, mutating := range []bool{true, false} {
		w := newWorld(t, mutating)
		create := func() *admission.Request {
			return &admission.Request{Verb: admission.Create, Object: admissiontest.Pod()}
		}
		conditions := func(h *hook) {
			h.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.metadata.name != 'never'"}}
		}
		never := func(h *hook) {
			h.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "false"}}
		}
		broken := func(h *hook) {
			h.MatchConditions = []registrationv1.MatchCondition{{Name: "a", Expression: "object.spec.missing == 1"}}
		}
		ignored := func(h *hook) { h.FailurePolicy = new(registrationv1.Ignore) }
		w.answer("/failing", func(rw http.ResponseWriter, _ *http.Request, _ *asked, _ *admissionv1.AdmissionResponse) bool {
			rw.WriteHeader(http.StatusTeapot)
			return false
		})
		w.answer("/denying", deny(&metav1.Status{Code: http.StatusForbidden}))
		names := []string{"calm", "excluded", "broken", "failing", "denying"}
		w.configure("a", w.everything("calm", conditions), w.everything("excluded", never), w.everything("broken", broken, ignored),
			w.everything("failing", ignored), w.everything("shared"), w.everything("denying"))
		w.configure("b", w.everything("shared"))
		if _, err := w.admit(create()); err == nil {
			t.Fatal("the request was admitted")
		}
		for _, name := range append(names, "shared") {
			if w.series(name) == 0 {
				t.Errorf("mutating %v: %s has no series", mutating, name)
			}
		}
		w.configure("a")
		w.answer("/shared", func(http.ResponseWriter, *http.Request, *asked, *admissionv1.AdmissionResponse) bool { return true })
		if _, err := w.admit(create()); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if n := w.series(name); n != 0 {
				t.Errorf("mutating %v: %d series of %s are left", mutating, n, name)
			}
		}
		if w.series("shared") == 0 {
			t.Errorf("mutating %v: the series of a webhook that is there ended", mutating)
		}

		reached, goOn := make(chan struct{}), make(chan struct{})
		w.answer("/slow", func(http.ResponseWriter, *http.Request, *asked, *admissionv1.AdmissionResponse) bool {
			close(reached)
			<-goOn
			return true
		})
		w.configure("a", w.everything("slow"))
		ended := make(chan error, 1)
		go func() {
			_, err := w.admit(create())
			ended <- err
		}()
		<-reached
		w.configure("a")
		if _, err := w.admit(create()); err != nil {
			t.Fatal(err)
		}
		close(goOn)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if n := w.series("slow"); n != 0 {
			t.Errorf("mutating %v: a call under way left %d series", mutating, n)
		}
	}
}
