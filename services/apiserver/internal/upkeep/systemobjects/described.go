package systemobjects

import (
	"context"
	"fmt"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/flowcontrol"
)

// ensureDescription creates the missing built-in priority levels and flow schemas. If nothing is missing
// it costs two lists.
func (o *Objects) ensureDescription(ctx context.Context) error {
	if err := ensureAll(ctx, o, flowcontrol.PriorityLevels()); err != nil {
		return err
	}
	return ensureAll(ctx, o, flowcontrol.FlowSchemas())
}

// ensureAll creates those of some cluster-scoped objects of one kind that do not exist.
func ensureAll[T scheme.Object](ctx context.Context, o *Objects, objs []T) error {
	kind := scheme.For[T](o.Table)
	page, err := o.Store.List(ctx, kind, store.ListOptions{})
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
		if err := o.ensure(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}
