package registry

import (
	"context"
	"fmt"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fairness"
	"github.com/garboard/garboard/services/apiserver/internal/localapis"
	"github.com/garboard/garboard/services/apiserver/internal/store"
)

// ensureConfiguration creates what is missing of the objects by which Kubernetes' apiserver tells
// of itself: the groups and versions that it serves, and how it shares itself out.
func (r *Registry) ensureConfiguration(ctx context.Context) error {
	services, err := localapis.Of(r.config.Table)
	if err != nil {
		return err
	}
	if err := ensureAll(ctx, r, services); err != nil {
		return err
	}
	if err := ensureAll(ctx, r, fairness.PriorityLevels()); err != nil {
		return err
	}
	return ensureAll(ctx, r, fairness.FlowSchemas())
}

// ensureAll creates those of some cluster-wide objects of one kind that do not exist. When all
// do, it costs one list.
func ensureAll[T scheme.Object](ctx context.Context, r *Registry, objs []T) error {
	kind := scheme.For[T](r.config.Table)
	page, err := r.config.Store.List(ctx, kind, store.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing %s: %w", kind.Resource, err)
	}
	exist := map[string]bool{}
	for _, obj := range page.Objects {
		exist[obj.GetName()] = true
	}
	for _, obj := range objs {
		if exist[obj.GetName()] {
			continue
		}
		if err := r.ensure(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}
