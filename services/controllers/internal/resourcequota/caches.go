package resourcequota

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// cache is a cache of the objects of one kind.
type cache interface {
	// in returns the objects of a namespace.
	in(namespace string) ([]scheme.Object, error)
	// waitFor waits until the cache shows everything written up to a revision.
	waitFor(ctx context.Context, revision int64) error
}

// informed is a cache kept by an informer.
type informed[T informer.Object] struct{ informer.SharedInformer[T] }

func (s informed[T]) in(namespace string) ([]scheme.Object, error) {
	found, err := s.Indexer().ByIndex(informer.NamespaceIndex, namespace)
	if err != nil {
		return nil, err
	}
	objects := make([]scheme.Object, len(found))
	for i, obj := range found {
		objects[i] = obj
	}
	return objects, nil
}

func (s informed[T]) waitFor(ctx context.Context, revision int64) error {
	return s.WaitForRevision(ctx, revision)
}

// counted is a cache of objects that are only counted: it keeps their names. It is the sink of a
// follower.
type counted struct {
	informer.SinkDefaults
	kind     *scheme.Kind
	follower informer.Follower
	// deleted is called for each object that is gone.
	deleted func(kind *scheme.Kind, gone scheme.Object)

	mu sync.Mutex
	// objects are by namespace and name.
	objects  map[string]map[string]scheme.Object
	revision int64
	// moved is closed, and replaced, when revision rises.
	moved chan struct{}
}

func newCounted(source informer.Source, kind *scheme.Kind, deleted func(*scheme.Kind, scheme.Object)) *counted {
	c := &counted{kind: kind, deleted: deleted, objects: map[string]map[string]scheme.Object{}, moved: make(chan struct{})}
	c.follower = source.Follower(kind, informer.View{}, c)
	return c
}

// Replace sets the kind's objects to exactly these.
func (c *counted) Replace(at fabric.Position, objects []informer.Object) {
	c.mu.Lock()
	old := c.objects
	c.objects = map[string]map[string]scheme.Object{}
	for _, obj := range objects {
		if was := old[obj.GetNamespace()][obj.GetName()]; was != nil && was.GetUID() == obj.GetUID() {
			delete(old[obj.GetNamespace()], obj.GetName())
		}
		c.put(obj.GetNamespace(), obj.GetName(), obj)
	}
	c.move(at.Revision)
	c.mu.Unlock()
	for _, left := range old {
		for _, obj := range left {
			c.deleted(c.kind, obj)
		}
	}
}

// Apply applies changes that lead to revision.
func (c *counted) Apply(changes []informer.Change, revision int64) {
	c.mu.Lock()
	var gone []scheme.Object
	for _, change := range changes {
		was := c.objects[change.Namespace][change.Name]
		replaced := !change.Deleted && was != nil && change.Object != nil && was.GetUID() != change.Object.GetUID()
		switch {
		case was != nil && (change.Deleted || replaced):
			gone = append(gone, was)
		case change.Deleted:
			// It came and went between two statements. Its creation was charged before its deletion.
			gone = append(gone, counting(change.Namespace, change.Name, types.UID(change.UID), strconv.FormatInt(change.Revision, 10)))
		}
		switch {
		case change.Deleted:
			delete(c.objects[change.Namespace], change.Name)
		case change.Object != nil:
			c.put(change.Namespace, change.Name, change.Object)
		}
	}
	c.move(revision)
	c.mu.Unlock()
	for _, obj := range gone {
		c.deleted(c.kind, obj)
	}
}

// put stores an object's name, UID and version. The caller holds c.mu.
func (c *counted) put(namespace, name string, obj scheme.Object) {
	if c.objects[namespace] == nil {
		c.objects[namespace] = map[string]scheme.Object{}
	}
	c.objects[namespace][name] = counting(namespace, name, obj.GetUID(), obj.GetResourceVersion())
}

// counting returns what is kept of an object that is only counted.
func counting(namespace, name string, uid types.UID, version string) scheme.Object {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid, ResourceVersion: version}}
}

// move records that the cache is at revision. The caller holds c.mu.
func (c *counted) move(revision int64) {
	c.revision = revision
	close(c.moved)
	c.moved = make(chan struct{})
}

func (c *counted) in(namespace string) ([]scheme.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	objects := make([]scheme.Object, 0, len(c.objects[namespace]))
	for _, obj := range c.objects[namespace] {
		objects = append(objects, obj)
	}
	return objects, nil
}

func (c *counted) waitFor(ctx context.Context, revision int64) error {
	asked := false
	for {
		c.mu.Lock()
		at, moved := c.revision, c.moved
		c.mu.Unlock()
		if at >= revision {
			return nil
		}
		if !asked {
			asked = true
			c.follower.Require(revision)
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s to reach revision %d, currently at %d: %w", c.kind.GroupResource(), revision, at, context.Cause(ctx))
		}
	}
}
