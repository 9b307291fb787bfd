package informer

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// store holds the objects of a view with their indexes and the revision of which they are the
// exact content. All of it changes under one lock.
type store[T Object] struct {
	mu       sync.RWMutex
	objects  map[string]T
	indexes  map[string]*index[T]
	revision int64
	// report takes the faults of index functions; it is called under the lock.
	report func(error)
}

// index finds keys by the values that a function gives for their objects.
type index[T Object] struct {
	name   string
	values IndexFunc[T]
	// keys are never empty: a value without keys is not there.
	keys map[string]map[string]struct{}
}

func newStore[T Object](report func(error)) *store[T] {
	s := &store[T]{objects: map[string]T{}, indexes: map[string]*index[T]{}, report: report}
	s.indexes[NamespaceIndex] = newIndex(NamespaceIndex, func(obj T) ([]string, error) {
		return []string{obj.GetNamespace()}, nil
	})
	return s
}

func newIndex[T Object](name string, values IndexFunc[T]) *index[T] {
	return &index[T]{name: name, values: values, keys: map[string]map[string]struct{}{}}
}

// addIndexers adds indexes and fills them; an error, and no change, if a name is taken.
func (s *store[T]) addIndexers(indexers Indexers[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, values := range indexers {
		if s.indexes[name] != nil {
			return fmt.Errorf("adding an index: there is one named %q already", name)
		}
		if values == nil {
			return fmt.Errorf("adding the index %q: it has no function", name)
		}
	}
	for name, values := range indexers {
		index := newIndex(name, values)
		for key, obj := range s.objects {
			index.add(key, s.valuesOf(index, obj))
		}
		s.indexes[name] = index
	}
	return nil
}

// put stores obj. The caller holds the lock.
func (s *store[T]) put(key string, obj T) {
	old, known := s.objects[key]
	s.objects[key] = obj
	for _, index := range s.indexes {
		values := s.valuesOf(index, obj)
		if known {
			before := s.valuesOf(index, old)
			if slices.Equal(before, values) {
				continue
			}
			index.remove(key, before)
		}
		index.add(key, values)
	}
}

// drop removes an object. The caller holds the lock.
func (s *store[T]) drop(key string) {
	old, known := s.objects[key]
	if !known {
		return
	}
	for _, index := range s.indexes {
		index.remove(key, s.valuesOf(index, old))
	}
	delete(s.objects, key)
}

// valuesOf asks an index function. One that fails leaves the object out of its index, since a
// single bad object must not stop the view.
func (s *store[T]) valuesOf(index *index[T], obj T) (values []string) {
	defer func() {
		if r := recover(); r != nil {
			values = nil
			s.report(fmt.Errorf("indexing %s by %q: the function panicked: %v", Key(obj), index.name, r))
		}
	}()
	values, err := index.values(obj)
	if err != nil {
		s.report(fmt.Errorf("indexing %s by %q: %w", Key(obj), index.name, err))
		return nil
	}
	return values
}

func (i *index[T]) add(key string, values []string) {
	for _, value := range values {
		keys := i.keys[value]
		if keys == nil {
			keys = map[string]struct{}{}
			i.keys[value] = keys
		}
		keys[key] = struct{}{}
	}
}

func (i *index[T]) remove(key string, values []string) {
	for _, value := range values {
		keys := i.keys[value]
		delete(keys, key)
		if len(keys) == 0 {
			delete(i.keys, value)
		}
	}
}

// GetByKey finds an object by its key.
func (s *store[T]) GetByKey(key string) (T, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	obj, exists := s.objects[key]
	return obj, exists
}

// List gives all objects.
func (s *store[T]) List() []T {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.AppendSeq(make([]T, 0, len(s.objects)), maps.Values(s.objects))
}

// ListKeys gives all keys.
func (s *store[T]) ListKeys() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.AppendSeq(make([]string, 0, len(s.objects)), maps.Keys(s.objects))
}

// ByIndex gives the objects under a value of an index.
func (s *store[T]) ByIndex(name, value string) ([]T, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys, err := s.under(name, value)
	if err != nil {
		return nil, err
	}
	objects := make([]T, 0, len(keys))
	for key := range keys {
		objects = append(objects, s.objects[key])
	}
	return objects, nil
}

// IndexKeys gives the sorted keys under a value of an index.
func (s *store[T]) IndexKeys(name, value string) ([]string, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys, err := s.under(name, value)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(keys)), nil
}

func (s *store[T]) under(name, value string) (map[string]struct{}, error) {
	index := s.indexes[name]
	if index == nil {
		return nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // client-go's words
	}
	return index.keys[value], nil
}

func (s *store[T]) at() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.revision
}
