package fake_test

import (
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
)

func TestFence(t *testing.T) {
	c := fake.New(scheme.New())
	leases, maps := client.Of[*coordinationv1.Lease](c), client.Of[*corev1.ConfigMap](c)
	holder, transitions := "one", int32(1)
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "lead"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseTransitions: &transitions},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	ctx := fence.With(t.Context(), fence.Of(lease), func() { refused++ })
	create := func(name string) error {
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}, metav1.CreateOptions{})
		return err
	}
	if err := create("x"); err != nil {
		t.Errorf("a write of the holder failed: %v", err)
	}
	other := "two"
	lease.Spec.HolderIdentity = &other
	if _, err := leases.Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := create("y"); !fence.IsLost(err) {
		t.Errorf("a write with a lost fence: %v", err)
	}
	if _, err := maps.Get(ctx, "a", "y", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("reading the object of the refused write: %v", err)
	}
	if err := leases.Delete(t.Context(), "a", "lead", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(ctx, "a", "x", metav1.DeleteOptions{}); !fence.IsLost(err) {
		t.Errorf("a write without a lease: %v", err)
	}
	if refused != 2 {
		t.Errorf("notified of %d refusals", refused)
	}
	ctx = fence.With(t.Context(), fence.Fence{Name: "x"}, nil)
	if err := create("z"); !apierrors.IsBadRequest(err) {
		t.Errorf("an invalid fence: %v", err)
	}
}
