package registry_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	resourcequantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/registry/listing"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func newService(name string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	return registrytest.Service(name, change...)
}

func TestNamespaceLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	namespaces := resource[*corev1.Namespace](w)
	for _, name := range []string{"default", "kube-system", "kube-public"} {
		_, _, err := namespaces.Delete(t.Context(), "", name, metav1.DeleteOptions{})
		want := fmt.Sprintf(`namespaces "%s" is forbidden: this namespace may not be deleted`, name)
		if !apierrors.IsForbidden(err) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	create(w, "", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "work"}})
	obj, gone, err := namespaces.Delete(t.Context(), "", "work", metav1.DeleteOptions{})
	if err != nil || gone || obj.(*corev1.Namespace).Status.Phase != corev1.NamespaceTerminating || obj.GetDeletionTimestamp() == nil {
		t.Fatalf("deleting: %v, %v, %+v", err, gone, obj)
	}
	if err := w.Feeds.Of(namespaces.Kind()).WaitFor(t.Context(), revisionOf(t, obj.GetResourceVersion())); err != nil {
		t.Fatal(err)
	}
	_, err = resource[*corev1.ConfigMap](w).Create(t.Context(), "work", newConfigMap("c"), metav1.CreateOptions{})
	want := `configmaps "c" is forbidden: unable to create new content in namespace work because it is being terminated`
	if !apierrors.IsForbidden(err) || err.Error() != want || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("creating in it: %v", err)
	}
	again, gone, err := namespaces.Delete(t.Context(), "", "work", metav1.DeleteOptions{})
	if err != nil || gone || again.GetResourceVersion() != obj.GetResourceVersion() {
		t.Errorf("deleting again: %v, %v", gone, err)
	}
	if _, err := update(w, "", "work", "", func(n *corev1.Namespace) { n.Spec.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	if n := get[*corev1.Namespace](w, "", "work"); len(n.Spec.Finalizers) != 1 {
		t.Error("an ordinary update took the finalizer")
	}
	if _, err := update(w, "", "work", "finalize", func(n *corev1.Namespace) { n.Spec.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := namespaces.Get(t.Context(), "", "work"); !apierrors.IsNotFound(err) {
		t.Errorf("after its finalizer: %v", err)
	}
}

func revisionOf(t *testing.T, version string) int64 {
	t.Helper()
	revision, err := listing.ParseVersion(version)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func TestNewNodesAreTaintedUntilReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := create(w, "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"cpu": resourcequantity.MustParse("4")}}})
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady || node.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("the taints are %+v", node.Spec.Taints)
	}
	if cpu := node.Status.Allocatable["cpu"]; cpu.String() != "4" {
		t.Errorf("the allocatable resources are %v", node.Status.Allocatable)
	}
	got, err := update(w, "", "n1", "status", func(n *corev1.Node) {
		n.Spec.Taints, n.Status.NodeInfo.KubeletVersion = nil, "v1"
	})
	if err != nil || len(got.Spec.Taints) != 1 || got.Status.NodeInfo.KubeletVersion != "v1" {
		t.Errorf("the node's status: %v, %+v", err, got)
	}
}

func TestSecretsAndConfigMaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := create(w, "default", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"a": "b"}})
	if secret.Type != corev1.SecretTypeOpaque || string(secret.Data["a"]) != "b" || secret.StringData != nil {
		t.Errorf("the secret is %+v", secret)
	}
	_, err := resource[*corev1.Secret](w).Create(t.Context(), "default", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Type: corev1.SecretTypeTLS}, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "data[tls.crt]: Required value") {
		t.Errorf("a TLS secret without keys: %v", err)
	}
	if _, err := update(w, "default", "s", "", func(s *corev1.Secret) { s.Type = "other" }); !apierrors.IsInvalid(err) {
		t.Errorf("another type: %v", err)
	}
	create(w, "default", newConfigMap("c"))
	fixed := true
	if _, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Immutable = &fixed }); err != nil {
		t.Fatal(err)
	}
	_, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Data["a"] = "z" })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "data: Forbidden: field is immutable when `immutable` is set") {
		t.Errorf("changing an immutable ConfigMap: %v", err)
	}
	big := newConfigMap("big")
	big.Data["a"] = strings.Repeat("x", 1<<20+1)
	if _, err := resource[*corev1.ConfigMap](w).Create(t.Context(), "default", big, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "Too long") {
		t.Errorf("a big ConfigMap: %v", err)
	}
}
