package feed

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/encoded"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// await is WaitFor with a bounded wait and Kubernetes' errors.
func (f *Feed) await(ctx context.Context, revision int64) error {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, f.cfg.Patience)
	defer cancel()
	err := f.WaitFor(bounded, revision)
	f.metrics.waited.WithLabelValues(f.kind.Group, f.kind.Resource).Observe(time.Since(began).Seconds())
	f.counted()
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, scheme.ErrRemoved) {
		return err
	}
	if _, through := f.Window(); through > 0 {
		return store.NewTooLargeResourceVersion(revision, through, retrySeconds)
	}
	return apierrors.NewTooManyRequests("storage is (re)initializing", retrySeconds)
}

// Snapshot returns the objects of a view at one revision, which is at least minimum, in key order.
// It waits up to Config.Patience for minimum, then fails with Kubernetes' 504 "Too large resource
// version". The objects are shared and must not be modified.
func (f *Feed) Snapshot(ctx context.Context, view fabric.View, minimum int64) (objects []scheme.Object, revision int64, err error) {
	reading, err := f.Read(ctx, view, minimum)
	if err != nil {
		return nil, 0, err
	}
	objects = make([]scheme.Object, len(reading.Items))
	for n, i := range reading.Items {
		objects[n] = i.Object
	}
	return objects, reading.Revision, nil
}

// Item is an object as a feed has it. Everything in it is shared and must not be modified.
type Item struct {
	// Key is the object's position in key order: namespace, slash, name.
	Key string
	// Object is its state.
	Object scheme.Object
	// Plain is its protobuf message, or its JSON if it is of a custom kind, without the resourceVersion; nil
	// if it is not at hand.
	Plain []byte
	// Encodings are the encodings of Object; nil if none are kept.
	Encodings *encoded.Forms
}

// Reading is the contents of a view at a revision.
type Reading struct {
	// History is the history of Revision.
	History fabric.History
	// Revision is the revision at which the view was read.
	Revision int64
	// Items are in key order. They are shared and must not be modified.
	Items []Item
	// Unreadable are the keys in the view's namespace whose values cannot be read, in no particular
	// order.
	Unreadable []string
}

// Read is like Snapshot and returns everything that the feed knows of the objects.
func (f *Feed) Read(ctx context.Context, view fabric.View, minimum int64) (Reading, error) {
	reading, _, err := f.read(ctx, view, minimum, false)
	return reading, err
}

// ReadAndWatch is Read with a watch of everything after it.
func (f *Feed) ReadAndWatch(ctx context.Context, view fabric.View, minimum int64) (Reading, *Watcher, error) {
	return f.read(ctx, view, minimum, true)
}

// ReadAt returns the contents of a view at a revision, without waiting. It returns false if the
// feed does not know them, which is so if anything near the view has changed since.
func (f *Feed) ReadAt(view fabric.View, revision int64) (Reading, bool) {
	f.mu.Lock()
	if !f.readable() || revision < f.state.start || f.state.through < revision || f.state.head(f.state.index(view)) > revision {
		f.mu.Unlock()
		return Reading{}, false
	}
	reading := f.readUnlocking(view)
	reading.Revision = revision
	return reading, true
}

func (f *Feed) read(ctx context.Context, view fabric.View, minimum int64, watch bool) (Reading, *Watcher, error) {
	if err := f.await(ctx, minimum); err != nil {
		return Reading{}, nil, err
	}
	f.mu.Lock()
	if !f.readable() { // the feed was read anew since
		f.mu.Unlock()
		return Reading{}, nil, apierrors.NewTooManyRequests("storage is (re)initializing", retrySeconds)
	}
	var watcher *Watcher
	if watch {
		watcher = f.watchLocked(ctx, view, f.state.through)
	}
	return f.readUnlocking(view), watcher, nil
}

// ordering is the last view that was read, in order, as long as nothing changes: a paged read then
// sorts the view only once.
type ordering struct {
	view  fabric.View
	items []Item
}

// readUnlocking must be called with the lock held, and releases it.
func (f *Feed) readUnlocking(view fabric.View) Reading {
	reading := Reading{History: f.state.history, Revision: f.state.through}
	for key := range f.state.unreadable {
		namespace, name, _ := strings.Cut(key, "/")
		if (view.Namespace == "" || namespace == view.Namespace) && (view.Name == "" || name == view.Name) {
			reading.Unreadable = append(reading.Unreadable, key)
		}
	}
	if f.ordered != nil && f.ordered.view == view {
		reading.Items = f.ordered.items
		f.mu.Unlock()
		return reading
	}
	items, changes := f.state.items(view), f.changes
	f.mu.Unlock()
	sortItems(items)
	reading.Items = make([]Item, len(items))
	for n, i := range items {
		reading.Items[n] = Item{Key: i.key, Object: i.object, Plain: i.plain, Encodings: i.encodings}
	}
	if view.Name == "" && view.Scope == "" {
		f.mu.Lock()
		if f.changes == changes {
			f.ordered = &ordering{view: view, items: reading.Items}
		}
		f.mu.Unlock()
	}
	return reading
}

// changedLocked records that the objects have changed.
func (f *Feed) changedLocked() {
	f.changes++
	f.ordered = nil
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

// ErrUnreadable reports that etcd holds a value that cannot be read.
var ErrUnreadable = errors.New("the stored value cannot be read")

// Get returns an object at a revision that is at least minimum, for which it waits like Snapshot.
// It returns nil if there is no object, and ErrUnreadable if it cannot be read.
func (f *Feed) Get(ctx context.Context, namespace, name string, minimum int64) (scheme.Object, error) {
	if err := f.await(ctx, minimum); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readable() {
		return nil, apierrors.NewTooManyRequests("storage is (re)initializing", retrySeconds)
	}
	key := key(namespace, name)
	if _, found := f.state.unreadable[key]; found {
		return nil, ErrUnreadable
	}
	if found := f.state.objects[key]; found != nil {
		return found.object, nil
	}
	return nil, nil
}

// CountConsistentRead counts a read of the current state of etcd: whether it succeeded, and whether
// it went to etcd because the feed was behind.
func (f *Feed) CountConsistentRead(success, fallback bool) {
	f.metrics.consistent.WithLabelValues(f.kind.Group, f.kind.Resource, strconv.FormatBool(success), strconv.FormatBool(fallback)).Inc()
	f.counted()
}

// Cached returns an object as the feed has it now, without waiting: it lacks whatever etcd has not
// reported yet. The object is shared and must not be modified. Cached returns false if the feed has
// no such object, or cannot be read.
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

// CachedIn is Cached for the objects of a view, in no particular order; nil if the feed cannot be
// read.
func (f *Feed) CachedIn(view fabric.View) []scheme.Object {
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
