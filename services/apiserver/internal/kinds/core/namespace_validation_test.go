package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestNamespaceFinalizers(t *testing.T) {
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes", "mine"}}}
	const wrong = `Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified`
	errortest.Exactly(t, validateNamespace(n), "spec.finalizers: "+wrong)
	errortest.Exactly(t, validateNamespaceFinalize(n, nil), "spec.finalizers[1]: "+wrong)
	n.Spec.Finalizers[1] = "example.com/mine"
	errortest.Exactly(t, validateNamespaceFinalize(n, nil))
}

func TestNamespaceStatus(t *testing.T) {
	n := &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}
	errortest.Contain(t, validateNamespaceStatus(n, n), "may only be 'Active' if `deletionTimestamp` is empty")
	n.DeletionTimestamp = new(metav1.Now())
	errortest.Contain(t, validateNamespaceStatus(n, n))
	n.Status.Phase = corev1.NamespaceActive
	errortest.Contain(t, validateNamespaceStatus(n, n), "may only be 'Terminating' if `deletionTimestamp` is not empty")
}
