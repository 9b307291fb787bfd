package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func named(name string, phase corev1.NamespacePhase, finalizers ...corev1.FinalizerName) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NamespaceSpec{Finalizers: finalizers}, Status: corev1.NamespaceStatus{Phase: phase},
	}
}

// TestNamespace checks which parts of a namespace each kind of change may touch.
func TestNamespace(t *testing.T) {
	d := Namespace()
	n := named("a", corev1.NamespaceTerminating, "example.com/own")
	d.PrepareForCreate(n)
	if n.Status.Phase != corev1.NamespaceActive || !slices.Equal(n.Spec.Finalizers, []corev1.FinalizerName{"example.com/own", "kubernetes"}) {
		t.Errorf("new: got %+v", n)
	}
	d.PrepareForCreate(n)
	if len(n.Spec.Finalizers) != 2 {
		t.Errorf("with its finalizer: got %q", n.Spec.Finalizers)
	}
	for _, tc := range []struct {
		name   string
		change func(n, old *corev1.Namespace)
		phase  corev1.NamespacePhase
		count  int
	}{
		{"update", func(n, old *corev1.Namespace) { d.Update.Prepare(n, old) }, corev1.NamespaceActive, 1},
		{"status", func(n, old *corev1.Namespace) { d.Subresources["status"].Prepare(n, old) }, corev1.NamespaceTerminating, 1},
		{"finalize", func(n, old *corev1.Namespace) { d.Subresources["finalize"].Prepare(n, old) }, corev1.NamespaceActive, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now, old := named("a", corev1.NamespaceTerminating), named("a", corev1.NamespaceActive, "kubernetes")
			tc.change(now, old)
			if now.Status.Phase != tc.phase || len(now.Spec.Finalizers) != tc.count {
				t.Errorf("got phase %s and finalizers %q", now.Status.Phase, now.Spec.Finalizers)
			}
			if d.Held(now) != (tc.count > 0) {
				t.Errorf("held: %t", d.Held(now))
			}
		})
	}
	d.Terminating(n)
	if !slices.Equal(d.FieldLabels, []string{"status.phase", "name"}) {
		t.Errorf("got field labels %q", d.FieldLabels)
	}
	if set := d.Fields(n); set["status.phase"] != "Terminating" || set["name"] != "a" {
		t.Errorf("got fields %v", set)
	}
}

// TestNamespaceDefaults checks the label with the name, which replaces any other value and leaves the
// sent labels alone.
func TestNamespaceDefaults(t *testing.T) {
	for name, want := range map[string]string{"a": "a", "": "other"} {
		sent := map[string]string{corev1.LabelMetadataName: "other", "x": "y"}
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: sent}}
		defaultNamespace(n)
		if n.Labels[corev1.LabelMetadataName] != want || n.Labels["x"] != "y" || sent[corev1.LabelMetadataName] != "other" || n.Status.Phase != corev1.NamespaceActive {
			t.Errorf("%q: got %+v, sent %v", name, n, sent)
		}
	}
}

func TestNamespaceNames(t *testing.T) {
	dotted := named("a.b", "")
	errortest.Exactly(t, validateNamespace(dotted), `metadata.name: Invalid value: "a.b": must not contain dots`)
	errortest.Exactly(t, Namespace().Update.Validate(dotted, dotted), `metadata.name: Invalid value: "a.b": must not contain dots`)
}
