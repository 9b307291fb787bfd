package informer

import (
	"fmt"
	"strconv"
)

// Store is an Indexer that its owner writes: what a program keeps by itself, with the keys, the
// indexes and the reads of an informer's (client-go, tools/cache.Store and Indexer). The store
// behind an informer is written by the informer only.
//
// A write fails with a *KeyError if there is no key, or with the transformer's error, and then
// changes nothing. With an *IndexError the write has happened, but for the place of the object
// in that index (client-go panics).
type Store[T Object] interface {
	Indexer[T]
	// Add stores obj, in place of one under its key.
	Add(obj T) error
	// Update is Add.
	Update(obj T) error
	// Delete removes the object under obj's key, if there is one, and moves the store's
	// version to that of obj.
	Delete(obj T) error
	// DeleteByKey removes what is under a key, if there is anything. The version stays.
	DeleteByKey(key string)
	// Get finds the object under obj's key.
	Get(obj T) (item T, exists bool, err error)
	// Replace makes objects the whole content at a version, in one step. The slice is the
	// store's afterwards.
	Replace(objects []T, resourceVersion string) error
	// Transaction makes several writes in one step. One without a key fails alone.
	Transaction(writes ...Transaction[T]) *TransactionError
	// Bookmark moves the version alone.
	Bookmark(resourceVersion string)
	// AddIndexers adds indexes over what is there; an error, and no change, if a name is taken.
	AddIndexers(indexers Indexers[T]) error
}

// KeyFunc gives the key of an object.
type KeyFunc[T Object] func(obj T) (string, error)

// MetaNamespaceKeyFunc is the usual KeyFunc: namespace/name, or name.
func MetaNamespaceKeyFunc[T Object](obj T) (string, error) { return Key(obj), nil }

// TransformFunc changes an object before it is stored, most often to leave out what nobody
// needs. It owns the object, may give another one, and must give the same if it is given what
// it gave before.
type TransformFunc[T Object] func(obj T) (T, error)

// KeyError says that an object has no key.
type KeyError struct {
	Obj Object
	Err error
}

// Error has client-go's words.
func (e *KeyError) Error() string {
	return fmt.Sprintf("couldn't create key for object %+v: %v", e.Obj, e.Err)
}

// Unwrap gives the key function's error.
func (e *KeyError) Unwrap() error { return e.Err }

// IndexError says that an index function failed or panicked, so that the object is stored but
// is not in that index.
type IndexError struct{ Err error }

// Error says which index and why.
func (e *IndexError) Error() string { return e.Err.Error() }

// Unwrap gives the function's error.
func (e *IndexError) Unwrap() error { return e.Err }

// TransactionType is what a write of a Transaction does.
type TransactionType string

// The writes of a Transaction.
const (
	TransactionTypeAdd    TransactionType = "Add"
	TransactionTypeUpdate TransactionType = "Update"
	TransactionTypeDelete TransactionType = "Delete"
)

// Transaction is one write of several.
type Transaction[T Object] struct {
	Object T
	Type   TransactionType
}

// TransactionError says which writes of a transaction failed. The others have happened.
type TransactionError struct {
	// SuccessfulIndices are the places of the writes that happened.
	SuccessfulIndices []int
	TotalTransactions int
	Errors            []error
}

// Error counts the failures.
func (e *TransactionError) Error() string {
	return fmt.Sprintf("failed to execute (%d/%d) transactions failed due to: %v",
		e.TotalTransactions-len(e.SuccessfulIndices), e.TotalTransactions, e.Errors)
}

// Unwrap gives the errors.
func (e *TransactionError) Unwrap() []error { return e.Errors }

// StoreOption is an option of NewStore.
type StoreOption[T Object] func(*ownStore[T])

// WithTransformer gives every stored object to a transformer first.
func WithTransformer[T Object](transform TransformFunc[T]) StoreOption[T] {
	return func(s *ownStore[T]) { s.transform = transform }
}

// NewStore makes an empty store without other indexes than NamespaceIndex.
func NewStore[T Object](key KeyFunc[T], options ...StoreOption[T]) Store[T] {
	return NewIndexer(key, nil, options...)
}

// NewIndexer makes an empty store with indexes. It panics if an index has no function or is
// named NamespaceIndex, which every store has.
func NewIndexer[T Object](key KeyFunc[T], indexers Indexers[T], options ...StoreOption[T]) Store[T] {
	s := &ownStore[T]{store: newStore[T](), key: key}
	for _, option := range options {
		option(s)
	}
	if err := s.AddIndexers(indexers); err != nil {
		panic(err)
	}
	return s
}

// ownStore is a store that a program writes by itself.
type ownStore[T Object] struct {
	*store[T]
	key       KeyFunc[T]
	transform TransformFunc[T]
}

func (s *ownStore[T]) keyOf(obj T) (string, error) {
	key, err := s.key(obj)
	if err != nil {
		return "", &KeyError{Obj: obj, Err: err}
	}
	return key, nil
}

// prepare gives what is stored for obj, under which key.
func (s *ownStore[T]) prepare(obj T) (string, T, error) {
	key, err := s.keyOf(obj)
	if err != nil || s.transform == nil {
		return key, obj, err
	}
	transformed, err := s.transform(obj)
	if err != nil {
		return "", obj, fmt.Errorf("transforming %s: %w", key, err)
	}
	return key, transformed, nil
}

func (s *ownStore[T]) Add(obj T) error {
	key, obj, err := s.prepare(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(key, obj)
}

func (s *ownStore[T]) Update(obj T) error { return s.Add(obj) }

// write stores obj and moves the version. The caller holds the lock.
func (s *ownStore[T]) write(key string, obj T) error {
	s.moveTo(obj.GetResourceVersion())
	if err := s.put(key, obj); err != nil {
		return &IndexError{Err: err}
	}
	return nil
}

func (s *ownStore[T]) Delete(obj T) error {
	key, err := s.keyOf(obj)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
	s.moveTo(obj.GetResourceVersion())
	return nil
}

func (s *ownStore[T]) DeleteByKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(key)
}

func (s *ownStore[T]) Get(obj T) (item T, exists bool, err error) {
	key, err := s.keyOf(obj)
	if err != nil {
		return item, false, err
	}
	item, exists = s.GetByKey(key)
	return item, exists, nil
}

func (s *ownStore[T]) Replace(objects []T, resourceVersion string) error {
	keys := make([]string, len(objects))
	for i := range objects {
		var err error
		if keys[i], objects[i], err = s.prepare(objects[i]); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		e.gone = true
	}
	s.entries = make(map[string]*entry[T], len(objects))
	for _, index := range s.indexes {
		clear(index.entries)
	}
	var fault error
	for i, obj := range objects {
		if err := s.put(keys[i], obj); err != nil {
			fault = &IndexError{Err: err}
		}
	}
	s.moveTo(resourceVersion)
	return fault
}

func (s *ownStore[T]) Transaction(writes ...Transaction[T]) *TransactionError {
	failure := &TransactionError{TotalTransactions: len(writes)}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range writes {
		if err := s.one(w); err != nil {
			failure.Errors = append(failure.Errors, err)
			continue
		}
		failure.SuccessfulIndices = append(failure.SuccessfulIndices, i)
	}
	if len(failure.Errors) == 0 {
		return nil
	}
	return failure
}

// one makes one write of a transaction. The caller holds the lock.
func (s *ownStore[T]) one(w Transaction[T]) error {
	switch w.Type {
	case TransactionTypeAdd, TransactionTypeUpdate:
		key, obj, err := s.prepare(w.Object)
		if err != nil {
			return err
		}
		return s.write(key, obj)
	case TransactionTypeDelete:
		key, err := s.keyOf(w.Object)
		if err != nil {
			return err
		}
		s.drop(key)
		s.moveTo(w.Object.GetResourceVersion())
		return nil
	default:
		return fmt.Errorf("a transaction cannot %q", w.Type)
	}
}

func (s *ownStore[T]) Bookmark(resourceVersion string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moveTo(resourceVersion)
}

// moveTo makes a resourceVersion the store's. One that is no number, as an object that never
// was in the API has none, moves nothing. The caller holds the lock.
func (s *ownStore[T]) moveTo(resourceVersion string) {
	if revision, err := strconv.ParseInt(resourceVersion, 10, 64); err == nil {
		s.revision = revision
	}
}
