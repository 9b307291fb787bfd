package namespacelifecycle

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// try admits a request by the plugin alone, and returns the warnings.
func try(t *testing.T, w *admissiontest.World, req *admission.Request) ([]string, error) {
	t.Helper()
	return w.Admit(t, req, Plugin(w.Objects()))
}

func TestNamespaceLifecycle(t *testing.T) {
	w := admissiontest.New(admissiontest.Namespace("going", corev1.NamespaceTerminating))
	going := func(p *corev1.Pod) { p.Namespace = "going" }
	for _, tc := range []struct {
		name string
		req  *admission.Request
		want string
	}{
		{"create in a namespace", &admission.Request{Object: admissiontest.Pod()}, ""},
		{"create in a missing namespace", &admission.Request{Object: admissiontest.Pod(func(p *corev1.Pod) { p.Namespace = "none" })}, `namespaces "none" not found`},
		{"create in a terminating namespace", &admission.Request{Object: admissiontest.Pod(going)}, `pods "p" is forbidden: unable to create new content in namespace going because it is being terminated`},
		{"create a subresource in a terminating namespace", &admission.Request{Object: admissiontest.Pod(going), Subresource: "eviction"}, `pods "p" is forbidden: unable to create new content in namespace going because it is being terminated`},
		{"update in a terminating namespace", &admission.Request{Verb: admission.Update, Object: admissiontest.Pod(going), Old: admissiontest.Pod(going)}, ""},
		{"delete in a terminating namespace", &admission.Request{Verb: admission.Delete, Old: admissiontest.Pod(going)}, ""},
		{"delete in a missing namespace", &admission.Request{Verb: admission.Delete, Old: admissiontest.Pod(func(p *corev1.Pod) { p.Namespace = "none" })}, ""},
		{"delete default", &admission.Request{Verb: admission.Delete, Old: admissiontest.Namespace("default", "")}, `namespaces "default" is forbidden: this namespace may not be deleted`},
		{"delete kube-system", &admission.Request{Verb: admission.Delete, Old: admissiontest.Namespace("kube-system", "")}, `namespaces "kube-system" is forbidden: this namespace may not be deleted`},
		{"delete kube-public", &admission.Request{Verb: admission.Delete, Old: admissiontest.Namespace("kube-public", "")}, `namespaces "kube-public" is forbidden: this namespace may not be deleted`},
		{"delete kube-node-lease", &admission.Request{Verb: admission.Delete, Old: admissiontest.Namespace("kube-node-lease", "")}, ""},
		{"delete another namespace", &admission.Request{Verb: admission.Delete, Old: admissiontest.Namespace("ns", "")}, ""},
		{"create a namespace", &admission.Request{Object: admissiontest.Namespace("new", "")}, ""},
		{"create a cluster-scoped object", &admission.Request{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := try(t, w, tc.req)
			if got := message(err); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	_, err := try(t, w, &admission.Request{Object: admissiontest.Pod(going)})
	cause, ok := apierrors.StatusCause(err, corev1.NamespaceTerminatingCause)
	if !ok || cause.Message != "namespace going is being terminated" || cause.Field != "metadata.namespace" {
		t.Errorf("got cause %+v", cause)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestDeletionThatTheCacheHasNotHeardOf: for a while after a namespace was deleted through this
// process, the plugin asks etcd.
func TestDeletionThatTheCacheHasNotHeardOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := admissiontest.New()
		w.Stale(admissiontest.Namespace("ns", corev1.NamespaceActive))
		plugin := Plugin(w.Objects())
		w.Put(admissiontest.Namespace("ns", corev1.NamespaceTerminating))
		if _, err := w.Admit(t, &admission.Request{Object: admissiontest.Pod()}, plugin); err != nil {
			t.Errorf("a deletion by another process, which the cache lacks: got %v, want no error", err)
		}
		if _, err := w.Admit(t, &admission.Request{Verb: admission.Delete, Old: admissiontest.Namespace("ns", "")}, plugin); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Admit(t, &admission.Request{Object: admissiontest.Pod()}, plugin); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("right after the deletion: got %v, want a refusal", err)
		}
		time.Sleep(remembered)
		if _, err := w.Admit(t, &admission.Request{Object: admissiontest.Pod()}, plugin); err != nil {
			t.Errorf("long after the deletion, when the cache decides: got %v, want no error", err)
		}
	})
}

func TestRememberedDeletionsAreBounded(t *testing.T) {
	r := &recent{until: map[string]time.Time{}}
	for i := range 10 * mostRemembered {
		r.add(string(rune('a' + i)))
	}
	if len(r.until) != mostRemembered || !r.has(string(rune('a'+10*mostRemembered-1))) {
		t.Errorf("%d deletions are remembered, want %d with the last one", len(r.until), mostRemembered)
	}
}
