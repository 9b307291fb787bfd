package cache

import (
	"fmt"
	"slices"

	"github.com/garboard/garboard/libs/scheme"
)

// entry is one stored object. Indexes point at entries, so a read by index finds objects without
// looking up their keys.
type entry[T scheme.Object] struct {
	key string
	obj T
	// gone means that the object was deleted. An index still points at such an entry only if its
	// function returned other values for the object than when it was stored.
	gone bool
}

// index finds entries by the values that a function returns for their objects.
type index[T scheme.Object] struct {
	name   string
	values func(T) ([]string, error)
	// single replaces values where each object has exactly one value; it needs no slice.
	single func(T) string
	// entries has no empty sets: a value without entries is absent.
	entries map[string]*entrySet[T]
}

func newIndex[T scheme.Object](name string, values func(T) ([]string, error)) *index[T] {
	return &index[T]{name: name, values: values, entries: map[string]*entrySet[T]{}}
}

// insert indexes an entry that is not in the index.
func (i *index[T]) insert(e *entry[T]) error {
	if i.single != nil {
		i.add(i.single(e.obj), e)
		return nil
	}
	values, err := i.valuesOf(e.obj)
	for _, value := range values {
		i.add(value, e)
	}
	return err
}

// update moves an entry whose object was old before.
func (i *index[T]) update(e *entry[T], old T) error {
	if i.single != nil {
		if before, after := i.single(old), i.single(e.obj); before != after {
			i.remove(before, e)
			i.add(after, e)
		}
		return nil
	}
	before, _ := i.valuesOf(old) // Its error was reported when old was stored.
	after, err := i.valuesOf(e.obj)
	if slices.Equal(before, after) {
		return err
	}
	for _, value := range before {
		i.remove(value, e)
	}
	for _, value := range after {
		i.add(value, e)
	}
	return err
}

// drop removes an entry.
func (i *index[T]) drop(e *entry[T]) {
	if i.single != nil {
		i.remove(i.single(e.obj), e)
		return
	}
	values, _ := i.valuesOf(e.obj) // Its error was reported when the object was stored.
	for _, value := range values {
		i.remove(value, e)
	}
}

// valuesOf calls the index function. If it fails or panics, the object is left out of the index,
// since a single bad object must not stop the view.
func (i *index[T]) valuesOf(obj T) (values []string, err error) {
	defer func() {
		if r := recover(); r != nil {
			values, err = nil, fmt.Errorf("indexing %s by %q: the function panicked: %v", Key(obj), i.name, r)
		}
	}()
	values, err = i.values(obj)
	if err != nil {
		return nil, fmt.Errorf("indexing %s by %q: %w", Key(obj), i.name, err)
	}
	return values, nil
}

func (i *index[T]) add(value string, e *entry[T]) {
	set := i.entries[value]
	if set == nil {
		set = &entrySet[T]{}
		i.entries[value] = set
	}
	set.add(e)
}

func (i *index[T]) remove(value string, e *entry[T]) {
	set := i.entries[value]
	if set == nil {
		return
	}
	set.remove(e)
	if set.len() == 0 {
		delete(i.entries, value)
	}
}

// fewEntries is the largest number of entries that a set keeps in a slice. Most values of an index
// by owner or by UID have a handful of objects, for which a map needs more memory than the objects
// do.
const fewEntries = 8

// entrySet is a set of entries.
type entrySet[T scheme.Object] struct {
	few  []*entry[T]
	many map[*entry[T]]struct{}
}

func (s *entrySet[T]) len() int { return len(s.few) + len(s.many) }

func (s *entrySet[T]) add(e *entry[T]) {
	switch {
	case s.many != nil:
		s.many[e] = struct{}{}
	case slices.Contains(s.few, e): // A function may return one value twice.
	case s.few == nil:
		s.few = append(make([]*entry[T], 0, 3), e)
	case len(s.few) < fewEntries:
		s.few = append(s.few, e)
	default:
		s.many = make(map[*entry[T]]struct{}, 2*fewEntries)
		for _, other := range s.few {
			s.many[other] = struct{}{}
		}
		s.many[e] = struct{}{}
		s.few = nil
	}
}

func (s *entrySet[T]) remove(e *entry[T]) {
	if s.many != nil {
		delete(s.many, e)
		if len(s.many) <= fewEntries/2 {
			s.few = make([]*entry[T], 0, fewEntries)
			for other := range s.many {
				s.few = append(s.few, other)
			}
			s.many = nil
		}
		return
	}
	if at := slices.Index(s.few, e); at >= 0 {
		last := len(s.few) - 1
		s.few[at] = s.few[last]
		s.few[last] = nil
		s.few = s.few[:last]
	}
}

// each calls do with every entry that is not gone.
func (s *entrySet[T]) each(do func(*entry[T])) {
	if s == nil {
		return
	}
	for _, e := range s.few {
		if !e.gone {
			do(e)
		}
	}
	for e := range s.many {
		if !e.gone {
			do(e)
		}
	}
}
