// Package store keeps what a program stores by itself, with the keys, the indexes and the reads
// of an informer's store (client-go, tools/cache.Store and Indexer). The store behind an
// informer is written by the informer only.
package store

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/internal/cache"
)

// Store is an Indexer that its owner writes.
//
// A write fails with a *KeyError if there is no key, or with the transformer's error, and then
// changes nothing. With an *IndexError the write has happened, but for the place of the object
// in that index (client-go panics).
type Store[T informer.Object] interface {
	informer.Indexer[T]
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
	AddIndexers(indexers informer.Indexers[T]) error
}

// KeyFunc gives the key of an object.
type KeyFunc[T informer.Object] func(obj T) (string, error)

// MetaNamespaceKeyFunc is the usual KeyFunc: namespace/name, or name.
func MetaNamespaceKeyFunc[T informer.Object](obj T) (string, error) { return informer.Key(obj), nil }

// KeyError says that an object has no key.
type KeyError struct {
	Obj informer.Object
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
type Transaction[T informer.Object] struct {
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

// Option is an option of New.
type Option[T informer.Object] func(*store[T])

// WithTransformer gives every stored object to a transformer first.
func WithTransformer[T informer.Object](transform informer.TransformFunc[T]) Option[T] {
	return func(s *store[T]) { s.transform = transform }
}

// New makes an empty store without other indexes than informer.NamespaceIndex.
func New[T informer.Object](key KeyFunc[T], options ...Option[T]) Store[T] {
	return NewIndexer(key, nil, options...)
}

// NewIndexer makes an empty store with indexes. It panics if an index has no function or is
// named informer.NamespaceIndex, which every store has.
func NewIndexer[T informer.Object](key KeyFunc[T], indexers informer.Indexers[T], options ...Option[T]) Store[T] {
	s := &store[T]{Cache: cache.New[T](), key: key}
	for _, option := range options {
		option(s)
	}
	if err := s.AddIndexers(indexers); err != nil {
		panic(err)
	}
	return s
}

type store[T informer.Object] struct {
	*cache.Cache[T]
	key       KeyFunc[T]
	transform informer.TransformFunc[T]
}

func (s *store[T]) AddIndexers(indexers informer.Indexers[T]) error {
	faults, err := cache.AddIndexers(s.Cache, indexers)
	if err != nil {
		return err
	}
	for i := range faults {
		faults[i] = &IndexError{Err: faults[i]}
	}
	return errors.Join(faults...)
}

func (s *store[T]) GetIndexers() informer.Indexers[T] {
	return cache.Indexers[T, informer.IndexFunc[T]](s.Cache)
}

func (s *store[T]) keyOf(obj T) (string, error) {
	key, err := s.key(obj)
	if err != nil {
		return "", &KeyError{Obj: obj, Err: err}
	}
	return key, nil
}

// prepare gives what is stored for obj, under which key.
func (s *store[T]) prepare(obj T) (string, T, error) {
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

func (s *store[T]) Add(obj T) error {
	key, obj, err := s.prepare(obj)
	if err != nil {
		return err
	}
	s.Lock()
	defer s.Unlock()
	return s.write(key, obj)
}

func (s *store[T]) Update(obj T) error { return s.Add(obj) }

// write stores obj and moves the version. The caller holds the lock.
func (s *store[T]) write(key string, obj T) error {
	s.moveTo(obj.GetResourceVersion())
	if err := s.Put(key, obj); err != nil {
		return &IndexError{Err: err}
	}
	return nil
}

func (s *store[T]) Delete(obj T) error {
	key, err := s.keyOf(obj)
	if err != nil {
		return err
	}
	s.Lock()
	defer s.Unlock()
	s.Drop(key)
	s.moveTo(obj.GetResourceVersion())
	return nil
}

func (s *store[T]) DeleteByKey(key string) {
	s.Lock()
	defer s.Unlock()
	s.Drop(key)
}

func (s *store[T]) Get(obj T) (item T, exists bool, err error) {
	key, err := s.keyOf(obj)
	if err != nil {
		return item, false, err
	}
	item, exists = s.GetByKey(key)
	return item, exists, nil
}

func (s *store[T]) Replace(objects []T, resourceVersion string) error {
	keys := make([]string, len(objects))
	for i := range objects {
		var err error
		if keys[i], objects[i], err = s.prepare(objects[i]); err != nil {
			return err
		}
	}
	s.Lock()
	defer s.Unlock()
	s.Reset(len(objects))
	var fault error
	for i, obj := range objects {
		if err := s.Put(keys[i], obj); err != nil {
			fault = &IndexError{Err: err}
		}
	}
	s.moveTo(resourceVersion)
	return fault
}

func (s *store[T]) Transaction(writes ...Transaction[T]) *TransactionError {
	failure := &TransactionError{TotalTransactions: len(writes)}
	s.Lock()
	defer s.Unlock()
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
func (s *store[T]) one(w Transaction[T]) error {
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
		s.Drop(key)
		s.moveTo(w.Object.GetResourceVersion())
		return nil
	default:
		return fmt.Errorf("a transaction cannot %q", w.Type)
	}
}

func (s *store[T]) Bookmark(resourceVersion string) {
	s.Lock()
	defer s.Unlock()
	s.moveTo(resourceVersion)
}

// moveTo makes a resourceVersion the store's. One that is no number, as an object that never
// was in the API has none, moves nothing. The caller holds the lock.
func (s *store[T]) moveTo(resourceVersion string) {
	if revision, err := strconv.ParseInt(resourceVersion, 10, 64); err == nil {
		s.MoveTo(revision)
	}
}
