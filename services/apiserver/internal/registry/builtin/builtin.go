// Package builtin provides the objects with which an apiserver describes itself: the groups and
// versions that it serves, and its priority levels and flow schemas.
package builtin

import (
	"context"
	"fmt"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/apiservices"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/flowcontrol"
)

// Lister lists the stored objects of a kind.
type Lister interface {
	List(ctx context.Context, kind *scheme.Kind, opts store.ListOptions) (store.Page, error)
}

// Ensure creates the missing APIServices of the table's groups and versions, and the missing
// built-in priority levels and flow schemas. If nothing is missing it costs three lists. create
// need not handle objects that another client has just created.
func Ensure(ctx context.Context, table *scheme.Table, stored Lister, create func(context.Context, scheme.Object) error) error {
	services, err := apiservices.Of(table)
	if err != nil {
		return err
	}
	if err := missing(ctx, table, stored, services, create); err != nil {
		return err
	}
	if err := missing(ctx, table, stored, flowcontrol.PriorityLevels(), create); err != nil {
		return err
	}
	return missing(ctx, table, stored, flowcontrol.FlowSchemas(), create)
}

// missing creates those of some cluster-scoped objects of one kind that do not exist.
func missing[T scheme.Object](ctx context.Context, table *scheme.Table, stored Lister, objs []T, create func(context.Context, scheme.Object) error) error {
	kind := scheme.For[T](table)
	page, err := stored.List(ctx, kind, store.ListOptions{})
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
		if err := create(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}
