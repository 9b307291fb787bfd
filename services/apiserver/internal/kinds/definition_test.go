package kinds_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

// TestCompanionsAreServed checks the kinds of which an object goes with another: each is served, and
// has a namespace exactly if the other does.
func TestCompanionsAreServed(t *testing.T) {
	table, found := scheme.New(), 0
	for gvk, definition := range builtin.All(builtin.Config{}) {
		for _, companion := range definition.DeletedWith {
			found++
			if kind := table.Kind(companion); kind == nil || kind.Namespaced != table.Kind(gvk).Namespaced {
				t.Errorf("the companion %s of %s is served as %v", companion, gvk, kind)
			}
		}
	}
	if found == 0 {
		t.Error("no kind has companions")
	}
}

// nothing reserves nothing.
type nothing struct{}

func (nothing) Reserve(context.Context, scheme.Object, scheme.Object, bool) (func(context.Context), error) {
	return func(context.Context) {}, nil
}

func (nothing) Release(context.Context, scheme.Object, scheme.Object) {}

// TestOnlyServicesReserve checks which definition gets the allocator of services.
func TestOnlyServicesReserve(t *testing.T) {
	for gvk, definition := range builtin.All(builtin.Config{Services: nothing{}}) {
		if want := gvk == corev1.SchemeGroupVersion.WithKind("Service"); (definition.Reserve != nil) != want {
			t.Errorf("%s reserves: %t, want %t", gvk, !want, want)
		}
	}
}

// TestReplicas checks that a kind has Replicas exactly if it serves a scale, and that an invalid
// selector is an error.
func TestReplicas(t *testing.T) {
	table, all := scheme.New(), builtin.All(builtin.Config{})
	for gvk, definition := range all {
		if kind := table.Kind(gvk); (definition.Replicas != nil) != (kind != nil && kind.HasSubresource("scale")) {
			t.Errorf("%s has replicas: %t", gvk, definition.Replicas != nil)
		}
	}
	bad := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Magic"}},
	}}}
	if found, err := all[appsv1.SchemeGroupVersion.WithKind("ReplicaSet")].Replicas.Scale(bad); err == nil {
		t.Errorf("an invalid selector gave %+v", found)
	}
}
