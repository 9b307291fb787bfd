package registry

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
)

// reserve reserves what a new or changed object may hold only once; old is nil for a new object. It
// returns how to free that again, after a write that certainly did not happen.
func (r *Resource) reserve(ctx context.Context, obj, old scheme.Object, dryRun bool) (giveBack func(context.Context), err error) {
	if r.strategy.Reserve == nil {
		return func(context.Context) {}, nil
	}
	return r.strategy.Reserve.Reserve(ctx, obj, old, dryRun)
}

// release frees what a stored object held before a write and does not hold after it; now is nil
// after a deletion.
func (r *Resource) release(ctx context.Context, before, now scheme.Object) {
	if r.strategy.Reserve != nil { // No kind with such parts has several versions.
		r.strategy.Reserve.Release(ctx, before, now)
	}
}

// deleteCompanions deletes the objects that go with a deleted one. No authorization and no admission
// applies: it is part of that deletion.
func (r *Resource) deleteCompanions(ctx context.Context, gone scheme.Object) {
	for _, gvk := range r.strategy.DeletedWith {
		companions := r.registry.Resource(r.registry.table.Kind(gvk))
		if companions == nil {
			continue
		}
		ctx := fence.Without(context.WithoutCancel(ctx))
		_, _, err := companions.WithoutAdmission().Delete(ctx, gone.GetNamespace(), gone.GetName(), metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			r.registry.log.Warn("failed to delete what goes with a deleted object", "kind", r.kind.Kind,
				"namespace", gone.GetNamespace(), "name", gone.GetName(), "companion", gvk.Kind, "err", err)
		}
	}
}
