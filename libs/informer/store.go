package informer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// store holds the objects of a view with their indexes and the revision of which they are the
// exact content. All of it changes under one lock.
type store[T Object] struct {
	mu      sync.RWMutex
	entries map[string]*entry[T]
	// indexes are in the order in which they were added.
	indexes []*index[T]
	// revision is the last one the store was told of; 0 if there was none.
	revision int64
}

func newStore[T Object]() *store[T] {
	namespaces := newIndex[T](NamespaceIndex, nil)
	namespaces.single = func(obj T) string { return obj.GetNamespace() }
	return &store[T]{entries: map[string]*entry[T]{}, indexes: []*index[T]{namespaces}}
}

// AddIndexers adds indexes and fills them; an error, and no change, if a name is taken. What
// a function does not index at once is in the error, and the index is there nevertheless.
func (s *store[T]) AddIndexers(indexers Indexers[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, values := range indexers {
		if s.index(name) != nil {
			return fmt.Errorf("adding an index: there is one named %q already", name)
		}
		if values == nil {
			return fmt.Errorf("adding the index %q: it has no function", name)
		}
	}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(indexers)) {
		index := newIndex(name, indexers[name])
		for _, e := range s.entries {
			if err := index.insert(e); err != nil {
				faults = append(faults, &IndexError{Err: err})
			}
		}
		s.indexes = append(s.indexes, index)
	}
	return errors.Join(faults...)
}

// index finds an index; nil if there is none. The caller holds the lock.
func (s *store[T]) index(name string) *index[T] {
	for _, index := range s.indexes {
		if index.name == name {
			return index
		}
	}
	return nil
}

// put stores obj. The error is that of index functions, whose index leaves obj out. The caller
// holds the lock.
func (s *store[T]) put(key string, obj T) error {
	e := s.entries[key]
	if e == nil {
		e = &entry[T]{key: key, obj: obj}
		s.entries[key] = e
		return s.enter(e)
	}
	return s.change(e, obj)
}

// enter indexes a new entry. The caller holds the lock.
func (s *store[T]) enter(e *entry[T]) error {
	var faults []error
	for _, index := range s.indexes {
		if err := index.insert(e); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// change gives a known entry another object. The caller holds the lock.
func (s *store[T]) change(e *entry[T], obj T) error {
	old := e.obj
	e.obj = obj
	var faults []error
	for _, index := range s.indexes {
		if err := index.update(e, old); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// drop removes an object. The caller holds the lock.
func (s *store[T]) drop(key string) {
	e := s.entries[key]
	if e == nil {
		return
	}
	for _, index := range s.indexes {
		index.drop(e)
	}
	delete(s.entries, key)
	e.gone = true
}

// expect makes room for count objects in an empty store. The caller holds the lock.
func (s *store[T]) expect(count int) { s.entries = make(map[string]*entry[T], count) }

// GetByKey finds an object by its key.
func (s *store[T]) GetByKey(key string) (obj T, exists bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	e := s.entries[key]
	if e == nil {
		return obj, false
	}
	return e.obj, true
}

// List gives all objects.
func (s *store[T]) List() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all()
}

// all gives all objects. The caller holds the lock.
func (s *store[T]) all() []T {
	objects := make([]T, 0, len(s.entries))
	for _, e := range s.entries {
		objects = append(objects, e.obj)
	}
	return objects
}

// ListKeys gives all keys.
func (s *store[T]) ListKeys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.AppendSeq(make([]string, 0, len(s.entries)), maps.Keys(s.entries))
}

// ByIndex gives the objects under a value of an index.
func (s *store[T]) ByIndex(name, value string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	index := s.index(name)
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

// Index gives the objects that share a value of an index with obj.
func (s *store[T]) Index(name string, obj T) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	index := s.index(name)
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

// IndexKeys gives the sorted keys under a value of an index.
func (s *store[T]) IndexKeys(name, value string) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	index := s.index(name)
	if index == nil {
		return nil, unknownIndex(name)
	}
	var keys []string
	index.entries[value].each(func(e *entry[T]) { keys = append(keys, e.key) })
	slices.Sort(keys)
	return keys, nil
}

// ListIndexFuncValues gives the sorted values of an index.
func (s *store[T]) ListIndexFuncValues(name string) []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	index := s.index(name)
	if index == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(index.entries))
}

// GetIndexers gives the index functions.
func (s *store[T]) GetIndexers() Indexers[T] {
	s.mu.RLock()
	defer s.mu.RUnlock()
	indexers := Indexers[T]{}
	for _, index := range s.indexes {
		indexers[index.name] = index.values
		if single := index.single; single != nil {
			indexers[index.name] = func(obj T) ([]string, error) { return []string{single(obj)}, nil }
		}
	}
	return indexers
}

func unknownIndex(name string) error {
	return fmt.Errorf("Index with name %s does not exist", name)
}

// LastStoreSyncResourceVersion is the revision as a resourceVersion; empty if there is none.
func (s *store[T]) LastStoreSyncResourceVersion() string {
	if revision := s.at(); revision != 0 {
		return strconv.FormatInt(revision, 10)
	}
	return ""
}

func (s *store[T]) at() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.revision
}

// view is what belongs together: all objects, and the revision of which they are the content.
func (s *store[T]) view() (objects []T, revision int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all(), s.revision
}

// NamespaceIndex is the index by namespace, which every store has.
const NamespaceIndex = "namespace"

// Key is the key of a stored object: namespace/name, or name if it has no namespace.
func Key(obj Object) string { return KeyOf(obj.GetNamespace(), obj.GetName()) }

// KeyOf is the key of the object with a namespace, which may be empty, and a name.
func KeyOf(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// SplitMetaNamespaceKey is the opposite of KeyOf; an error if key has more than two parts.
func SplitMetaNamespaceKey(key string) (namespace, name string, err error) {
	namespace, name, found := strings.Cut(key, "/")
	switch {
	case !found:
		return "", key, nil
	case strings.Contains(name, "/"):
		return "", "", fmt.Errorf("unexpected key format: %q", key)
	}
	return namespace, name, nil
}
