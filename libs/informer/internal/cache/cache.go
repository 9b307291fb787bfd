// Package cache holds objects with their indexes, and the revision of which they are the content.
package cache

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/garboard/garboard/libs/scheme"
)

// NamespaceIndex is the index by namespace, which every cache has.
const NamespaceIndex = "namespace"

// Cache holds the objects of a view with their indexes and the revision of which they are the exact
// content. Any goroutine may read it. One owner writes it, between Lock and Unlock, so that
// everything changes at once. The owner, as the only writer, needs no lock for Held, All and Len.
type Cache[T scheme.Object] struct {
	mu      sync.RWMutex
	entries map[string]*entry[T]
	// indexes are in the order in which they were added.
	indexes []*index[T]
	// revision is the last one passed to MoveTo; 0 if there was none.
	revision int64
}

// New creates an empty cache.
func New[T scheme.Object]() *Cache[T] {
	namespaces := newIndex[T](NamespaceIndex, nil)
	namespaces.single = func(obj T) string { return obj.GetNamespace() }
	return &Cache[T]{entries: map[string]*entry[T]{}, indexes: []*index[T]{namespaces}}
}

// AddIndexers adds indexes and fills them. If a name is taken or a function is nil, it returns an
// error and changes nothing. Faults are the errors of functions that failed for stored objects;
// their indexes are added all the same.
func AddIndexers[T scheme.Object, F ~func(T) ([]string, error)](c *Cache[T], indexers map[string]F) (faults []error, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, values := range indexers {
		if c.index(name) != nil {
			return nil, fmt.Errorf("adding an index: the name %q is taken", name)
		}
		if values == nil {
			return nil, fmt.Errorf("adding the index %q: it has no function", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(indexers)) {
		index := newIndex(name, indexers[name])
		for _, e := range c.entries {
			if err := index.insert(e); err != nil {
				faults = append(faults, err)
			}
		}
		c.indexes = append(c.indexes, index)
	}
	return faults, nil
}

// Indexers returns the index functions.
func Indexers[T scheme.Object, F ~func(T) ([]string, error)](c *Cache[T]) map[string]F {
	c.mu.RLock()
	defer c.mu.RUnlock()
	indexers := map[string]F{}
	for _, index := range c.indexes {
		indexers[index.name] = index.values
		if single := index.single; single != nil {
			indexers[index.name] = func(obj T) ([]string, error) { return []string{single(obj)}, nil }
		}
	}
	return indexers
}

// Lock begins a change, which readers see when Unlock ends it.
func (c *Cache[T]) Lock() { c.mu.Lock() }

// Unlock ends a change.
func (c *Cache[T]) Unlock() { c.mu.Unlock() }

// index finds an index; nil if there is none. The caller holds the lock.
func (c *Cache[T]) index(name string) *index[T] {
	for _, index := range c.indexes {
		if index.name == name {
			return index
		}
	}
	return nil
}

// Put stores obj. The error comes from index functions, whose indexes leave obj out. The caller
// holds the lock.
func (c *Cache[T]) Put(key string, obj T) error {
	e := c.entries[key]
	if e == nil {
		e = &entry[T]{key: key, obj: obj}
		c.entries[key] = e
		return c.enter(e)
	}
	return c.change(e, obj)
}

// enter indexes a new entry. The caller holds the lock.
func (c *Cache[T]) enter(e *entry[T]) error {
	var faults []error
	for _, index := range c.indexes {
		if err := index.insert(e); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// change replaces the object of a known entry. The caller holds the lock.
func (c *Cache[T]) change(e *entry[T], obj T) error {
	old := e.obj
	e.obj = obj
	var faults []error
	for _, index := range c.indexes {
		if err := index.update(e, old); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// Drop removes an object. The caller holds the lock.
func (c *Cache[T]) Drop(key string) {
	e := c.entries[key]
	if e == nil {
		return
	}
	for _, index := range c.indexes {
		index.drop(e)
	}
	delete(c.entries, key)
	e.gone = true
}

// Reset removes all objects and makes room for count. The caller holds the lock.
func (c *Cache[T]) Reset(count int) {
	for _, e := range c.entries {
		e.gone = true
	}
	c.entries = make(map[string]*entry[T], count)
	for _, index := range c.indexes {
		clear(index.entries)
	}
}

// MoveTo sets the revision of which the objects are the content. The caller holds the lock.
func (c *Cache[T]) MoveTo(revision int64) { c.revision = revision }

// Held finds an object by its key, for the owner.
func (c *Cache[T]) Held(key string) (obj T, exists bool) {
	if e := c.entries[key]; e != nil {
		return e.obj, true
	}
	return obj, false
}

// All iterates over all objects by their keys, in no order, for the owner, which may drop them
// while iterating.
func (c *Cache[T]) All() iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for key, e := range c.entries {
			if !yield(key, e.obj) {
				return
			}
		}
	}
}

// Len counts the objects, for the owner.
func (c *Cache[T]) Len() int { return len(c.entries) }

// GetByKey finds an object by its key.
func (c *Cache[T]) GetByKey(key string) (obj T, exists bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.Held(key)
}

// List returns all objects.
func (c *Cache[T]) List() []T {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.all()
}

// all returns all objects. The caller holds the lock.
func (c *Cache[T]) all() []T {
	objects := make([]T, 0, len(c.entries))
	for _, e := range c.entries {
		objects = append(objects, e.obj)
	}
	return objects
}

// ListKeys returns all keys.
func (c *Cache[T]) ListKeys() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.AppendSeq(make([]string, 0, len(c.entries)), maps.Keys(c.entries))
}

// ByIndex returns the objects under a value of an index.
func (c *Cache[T]) ByIndex(name, value string) ([]T, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	index := c.index(name)
	if index == nil {
		return nil, unknownIndex(name)
	}
	set := index.entries[value]
	if set == nil {
		return []T{}, nil
	}
	objects := make([]T, 0, set.len())
	set.each(func(e *entry[T]) { objects = append(objects, e.obj) })
	return objects, nil
}

// Index returns the objects that share a value of an index with obj.
func (c *Cache[T]) Index(name string, obj T) ([]T, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	index := c.index(name)
	if index == nil {
		return nil, unknownIndex(name)
	}
	var values []string
	if index.single != nil {
		values = []string{index.single(obj)}
	} else {
		var err error
		if values, err = index.valuesOf(obj); err != nil {
			return nil, err
		}
	}
	objects := []T{}
	if len(values) == 1 {
		index.entries[values[0]].each(func(e *entry[T]) { objects = append(objects, e.obj) })
		return objects, nil
	}
	seen := map[*entry[T]]bool{}
	for _, value := range values {
		index.entries[value].each(func(e *entry[T]) {
			if !seen[e] {
				seen[e] = true
				objects = append(objects, e.obj)
			}
		})
	}
	return objects, nil
}

// IndexKeys returns the sorted keys under a value of an index.
func (c *Cache[T]) IndexKeys(name, value string) ([]string, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	index := c.index(name)
	if index == nil {
		return nil, unknownIndex(name)
	}
	var keys []string
	index.entries[value].each(func(e *entry[T]) { keys = append(keys, e.key) })
	slices.Sort(keys)
	return keys, nil
}

// ListIndexFuncValues returns the sorted values of an index.
func (c *Cache[T]) ListIndexFuncValues(name string) []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	index := c.index(name)
	if index == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(index.entries))
}

// LastStoreSyncResourceVersion is the revision as a resourceVersion; empty if there is none.
func (c *Cache[T]) LastStoreSyncResourceVersion() string {
	if revision := c.Revision(); revision != 0 {
		return strconv.FormatInt(revision, 10)
	}
	return ""
}

// Revision is the revision of which the objects are the content; 0 if there is none.
func (c *Cache[T]) Revision() int64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.revision
}

// View returns all objects together with the revision of which they are the content.
func (c *Cache[T]) View() (objects []T, revision int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.all(), c.revision
}

// Size is View with the number of objects instead of the objects.
func (c *Cache[T]) Size() (objects int, revision int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries), c.revision
}

// Key returns the key of a stored object: namespace/name, or name if it has no namespace.
func Key(obj scheme.Object) string { return KeyOf(obj.GetNamespace(), obj.GetName()) }

// KeyOf returns the key of the object with a namespace, which may be empty, and a name.
func KeyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

func unknownIndex(name string) error {
	return fmt.Errorf("Index with name %s does not exist", name)
}
