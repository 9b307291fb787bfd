package admission

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/garboard/garboard/libs/scheme"
)

// Lookup reads other objects for the plugins. Its results are shared and read-only; its errors are
// apierrors.
type Lookup interface {
	// Get returns an object from the watch cache, or from etcd if the cache doesn't have it.
	Get(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error)
	// Live returns an object from etcd.
	Live(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error)
	// List returns the objects of a namespace, or of all namespaces if it is empty, from the watch
	// cache. LiveList returns them as they are in etcd: it waits for a while until the cache has
	// caught up.
	List(ctx context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error)
	LiveList(ctx context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error)
	// ListSince is List over all namespaces for a plugin that keeps a result computed from the objects
	// at version have. While they are the same, changed is false and nothing is read.
	ListSince(ctx context.Context, kind *scheme.Kind, have Version) (objs []scheme.Object, now Version, changed bool, err error)
	// Update replaces an object by what change returns, in one transaction guarded by its revision.
	// change is called again if another writer was faster.
	Update(ctx context.Context, kind *scheme.Kind, namespace, name string, change func(current scheme.Object) (scheme.Object, error)) (scheme.Object, error)
	// Create writes a new object with the rights of the apiserver, after admission and validation.
	Create(ctx context.Context, obj scheme.Object) error
}

// Version identifies a state of all objects of a kind: as long as it is the same, so are they. The zero
// Version means that nothing is known.
type Version struct {
	// Start counts how often the watch cache was read anew, from 1.
	Start int64
	// Head is the last revision at which an object may have changed.
	Head int64
}

// Objects are the other objects that plugins read by their Go types. Both fields are required.
type Objects struct {
	// Table is the set of served kinds.
	Table *scheme.Table
	// Lookup reads the objects.
	Lookup Lookup
}

// Get returns an object of type T from the watch cache, or else from etcd.
func Get[T scheme.Object](ctx context.Context, objects Objects, namespace, name string) (T, error) {
	return As[T](objects.Lookup.Get(ctx, scheme.For[T](objects.Table), namespace, name))
}

// Live returns an object of type T from etcd.
func Live[T scheme.Object](ctx context.Context, objects Objects, namespace, name string) (T, error) {
	return As[T](objects.Lookup.Live(ctx, scheme.For[T](objects.Table), namespace, name))
}

// List returns the objects of type T in a namespace, or in all if it is empty, from the watch cache.
func List[T scheme.Object](ctx context.Context, objects Objects, namespace string) ([]T, error) {
	return all[T](objects.Lookup.List(ctx, scheme.For[T](objects.Table), namespace))
}

// LiveList returns the objects of type T in a namespace, or in all if it is empty, as they are in
// etcd.
func LiveList[T scheme.Object](ctx context.Context, objects Objects, namespace string) ([]T, error) {
	return all[T](objects.Lookup.LiveList(ctx, scheme.For[T](objects.Table), namespace))
}

// ListSince returns the objects of type T in all namespaces, unless they are those of version have.
func ListSince[T scheme.Object](ctx context.Context, objects Objects, have Version) (objs []T, now Version, changed bool, err error) {
	found, now, changed, err := objects.Lookup.ListSince(ctx, scheme.For[T](objects.Table), have)
	objs, err = all[T](found, err)
	return objs, now, changed, err
}

func all[T scheme.Object](objs []scheme.Object, err error) ([]T, error) {
	if err != nil {
		return nil, err
	}
	found := make([]T, 0, len(objs))
	for _, obj := range objs {
		typed, err := As[T](obj, nil)
		if err != nil {
			return nil, err
		}
		found = append(found, typed)
	}
	return found, nil
}

// As returns the result of a lookup as a T. An object of another type is an error.
func As[T scheme.Object](obj scheme.Object, err error) (T, error) {
	typed, ok := obj.(T)
	if err == nil && !ok {
		err = fmt.Errorf("looking up a %T: found a %T", typed, obj)
	}
	return typed, err
}

// NewestDefault returns the name of the newest of the objects that are marked as the default, the first
// in the alphabet of several of one age; false if there is none. It takes ownership of objs.
func NewestDefault[T scheme.Object](objs []T, marked func(T) bool) (name string, ok bool) {
	objs = slices.DeleteFunc(objs, func(obj T) bool { return !marked(obj) })
	if len(objs) == 0 {
		return "", false
	}
	return slices.MinFunc(objs, func(a, b T) int {
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	}).GetName(), true
}
