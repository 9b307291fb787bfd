package feed

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/store"
)

// await is WaitFor with Kubernetes' patience and errors.
func (f *Feed) await(ctx context.Context, revision int64) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := f.WaitFor(bounded, revision)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if _, through := f.Window(); through > 0 {
		return store.NewTooLargeResourceVersion(revision, through, retrySeconds)
	}
	return apierrors.NewTooManyRequests("storage is (re)initializing", retrySeconds)
}

// Snapshot gives the objects of a view at one revision, which is at least minimum, in the
// order of their keys. It waits up to 3 s for minimum, then fails with Kubernetes' 504 "Too
// large resource version". The objects are shared and must not be changed.
func (f *Feed) Snapshot(ctx context.Context, view View, minimum int64) (objects []scheme.Object, revision int64, err error) {
	objects, revision, _, err = f.snapshot(ctx, view, minimum, false)
	return objects, revision, err
}

// SnapshotAndWatch is Snapshot with a watch of everything that follows it.
func (f *Feed) SnapshotAndWatch(ctx context.Context, view View, minimum int64) ([]scheme.Object, int64, *Watcher, error) {
	return f.snapshot(ctx, view, minimum, true)
}

func (f *Feed) snapshot(ctx context.Context, view View, minimum int64, watch bool) ([]scheme.Object, int64, *Watcher, error) {
	if err := f.await(ctx, minimum); err != nil {
		return nil, 0, nil, err
	}
	f.mu.Lock()
	if !f.readable() { // it was read anew since
		f.mu.Unlock()
		return nil, 0, nil, apierrors.NewTooManyRequests("storage is (re)initializing", retrySeconds)
	}
	items, revision := f.state.items(view), f.state.through
	var watcher *Watcher
	if watch {
		watcher = f.watchLocked(ctx, view, revision)
	}
	f.mu.Unlock()
	sortItems(items)
	objects := make([]scheme.Object, len(items))
	for n, i := range items {
		objects[n] = i.object
	}
	return objects, revision, watcher, nil
}

func sortItems(items []*item) {
	slices.SortFunc(items, func(a, b *item) int { return cmp.Compare(a.key, b.key) })
}

func withRevision(obj scheme.Object, revision int64) scheme.Object {
	copied, ok := obj.DeepCopyObject().(scheme.Object)
	if !ok {
		return obj
	}
	copied.SetResourceVersion(strconv.FormatInt(revision, 10))
	return copied
}

// Cached gives an object as the feed has it now, shared and not to be changed, without ever
// waiting: it may be stale by what etcd has not told yet. false if the feed has none, or cannot
// be read.
func (f *Feed) Cached(namespace, name string) (scheme.Object, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readable() {
		return nil, false
	}
	found := f.state.objects[key(namespace, name)]
	if found == nil {
		return nil, false
	}
	return found.object, true
}

// CachedIn is Cached for the objects of a view, in no order; nil if the feed cannot be read.
func (f *Feed) CachedIn(view View) []scheme.Object {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readable() {
		return nil
	}
	items := f.state.items(view)
	objects := make([]scheme.Object, len(items))
	for n, i := range items {
		objects[n] = i.object
	}
	return objects
}
