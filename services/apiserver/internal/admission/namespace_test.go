package admission

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func namespace(name string, phase corev1.NamespacePhase, labels ...string) *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Status: corev1.NamespaceStatus{Phase: phase}}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

func TestNamespaceLifecycle(t *testing.T) {
	w := newWorld(namespace("going", corev1.NamespaceTerminating))
	going := func(p *corev1.Pod) { p.Namespace = "going" }
	for _, tc := range []struct {
		name string
		req  *Request
		want string
	}{
		{"create in a namespace", &Request{Object: pod()}, ""},
		{"create in a missing namespace", &Request{Object: pod(func(p *corev1.Pod) { p.Namespace = "none" })}, `namespaces "none" not found`},
		{"create in a terminating namespace", &Request{Object: pod(going)}, `pods "p" is forbidden: unable to create new content in namespace going because it is being terminated`},
		{"create a subresource in a terminating namespace", &Request{Object: pod(going), Subresource: "eviction"}, `pods "p" is forbidden: unable to create new content in namespace going because it is being terminated`},
		{"update in a terminating namespace", &Request{Verb: Update, Object: pod(going), Old: pod(going)}, ""},
		{"delete in a terminating namespace", &Request{Verb: Delete, Old: pod(going)}, ""},
		{"delete in a missing namespace", &Request{Verb: Delete, Old: pod(func(p *corev1.Pod) { p.Namespace = "none" })}, ""},
		{"delete default", &Request{Verb: Delete, Old: namespace("default", "")}, `namespaces "default" is forbidden: this namespace may not be deleted`},
		{"delete kube-system", &Request{Verb: Delete, Old: namespace("kube-system", "")}, `namespaces "kube-system" is forbidden: this namespace may not be deleted`},
		{"delete kube-public", &Request{Verb: Delete, Old: namespace("kube-public", "")}, `namespaces "kube-public" is forbidden: this namespace may not be deleted`},
		{"delete kube-node-lease", &Request{Verb: Delete, Old: namespace("kube-node-lease", "")}, ""},
		{"delete another namespace", &Request{Verb: Delete, Old: namespace("ns", "")}, ""},
		{"create a namespace", &Request{Object: namespace("new", "")}, ""},
		{"create a cluster-scoped object", &Request{Object: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := w.try(t, tc.req, nil, "NamespaceLifecycle")
			if got := message(err); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
	_, err := w.try(t, &Request{Object: pod(going)}, nil, "NamespaceLifecycle")
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
		w := newWorld()
		w.stale(namespace("ns", corev1.NamespaceActive))
		chain, err := New(Config{Table: w.table, Lookup: w})
		if err != nil {
			t.Fatal(err)
		}
		w.put(namespace("ns", corev1.NamespaceTerminating))
		if _, err := w.run(t, chain, &Request{Object: pod()}); err != nil {
			t.Errorf("a deletion by another process, which the cache lacks: got %v, want no error", err)
		}
		if _, err := w.run(t, chain, &Request{Verb: Delete, Old: namespace("ns", "")}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.run(t, chain, &Request{Object: pod()}); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("right after the deletion: got %v, want a refusal", err)
		}
		time.Sleep(remembered)
		if _, err := w.run(t, chain, &Request{Object: pod()}); err != nil {
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
