package registry_test

import (
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// TestReviewsHaveNoResource checks that virtual kinds have no resource in the registry.
func TestReviewsHaveNoResource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, kind := range w.Table.Kinds() {
		if (w.Resource(kind) == nil) != (kind.Virtual && !kind.Observed) {
			t.Errorf("the resource of %s is %v", kind.Kind, w.Resource(kind))
		}
	}
}

func TestCertificateRequestsNoteTheRequester(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	requests := resource[*certificatesv1.CertificateSigningRequest](w)
	ctx := authn.WithUser(t.Context(), authn.User{Name: "ann", Groups: []string{"devs"}})
	bad := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{Username: "forged"}}
	_, err := requests.Create(ctx, "", bad, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || bad.Spec.Username != "ann" {
		t.Errorf("%v, %+v", err, bad.Spec)
	}
	for _, text := range []string{"spec.request: Invalid value", "PEM block type must be CERTIFICATE REQUEST", "spec.usages: Required value", "spec.signerName: Required value"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in %v", text, err)
		}
	}
}

// TestPutsOfNewKinds creates by PUT the kinds for which Kubernetes allows that, and requires the
// resourceVersion where Kubernetes does.
func TestPutsOfNewKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	put := func(obj scheme.Object, namespace, name string) error {
		_, err := w.Resource(w.Table.KindOf(obj)).Update(t.Context(), namespace, name, func(scheme.Object) (scheme.Object, error) { return obj, nil }, registry.UpdateOptions{})
		return err
	}
	meta := metav1.ObjectMeta{Name: "x"}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "r"}
	for _, obj := range []scheme.Object{
		&rbacv1.Role{ObjectMeta: meta}, &rbacv1.ClusterRole{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: role},
		&rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: role}, &corev1.LimitRange{ObjectMeta: meta},
	} {
		namespace := ""
		if w.Table.KindOf(obj).Namespaced {
			namespace = "default"
		}
		if err := put(obj, namespace, "x"); err != nil {
			t.Errorf("a PUT of a new %T: %v", obj, err)
		}
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: meta}
	if err := put(budget.DeepCopy(), "default", "x"); !apierrors.IsNotFound(err) {
		t.Errorf("a PUT of a new budget: %v", err)
	}
	create(w, "default", budget.DeepCopy())
	if err := put(budget, "default", "x"); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be specified for an update") {
		t.Errorf("a PUT of a budget without its resourceVersion: %v", err)
	}
	_, err := update(w, "default", "x", "", func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "other" })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("another role for a binding: %v", err)
	}
}
