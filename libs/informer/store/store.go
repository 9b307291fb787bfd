// Package store holds objects that a program stores by itself, with the keys, the indexes and the
// reads of an informer's store (client-go, tools/cache.Store and Indexer). Only the informer itself
// writes the store of an informer.
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
// A write fails with a *KeyError if the object has no key, or with the transformer's error, and
// then changes nothing. After an *IndexError the write has happened, except that the object is not
// in that index (client-go panics).
type Store[T informer.Object] interface {
	informer.Indexer[T]
	// Add stores obj and replaces an object with the same key.
	Add(obj T) error
	// Update is Add.
	Update(obj T) error
	// Delete removes the object under obj's key, if there is one, and moves the store's version to
	// obj's.
	Delete(obj T) error
	// DeleteByKey removes the object under a key, if there is one. The version stays.
	DeleteByKey(key string)
	// Get finds the object under obj's key.
	Get(obj T) (item T, exists bool, err error)
	// Replace makes objects the whole content at a version, in one step. The store owns the slice
	// afterwards.
	Replace(objects []T, resourceVersion string) error
	// Transaction makes several writes in one step. A write whose object has no key fails alone.
	Transaction(writes ...Transaction[T]) *TransactionError
	// Bookmark moves only the version.
	Bookmark(resourceVersion string)
	// AddIndexers adds indexes and fills them; an error, and no change, if a name is taken.
	AddIndexers(indexers informer.Indexers[T]) error
}

// KeyFunc returns the key of an object.
type KeyFunc[T informer.Object] func(obj T) (string, error)

// MetaNamespaceKeyFunc is the usual KeyFunc: namespace/name, or name.
func MetaNamespaceKeyFunc[T informer.Object](obj T) (string, error) { return informer.Key(obj), nil }

// KeyError reports that an object has no key.
type KeyError struct {
	Obj informer.Object
	Err error
}

// Error returns client-go's text.
func (e *KeyError) Error() string {
	return fmt.Sprintf("couldn't create key for object %+v: %v", e.Obj, e.Err)
}

// Unwrap returns the key function's error.
func (e *KeyError) Unwrap() error { return e.Err }

// IndexError reports that an index function failed or panicked: the object is stored but is not in
// that index.
type IndexError struct{ Err error }

// Error names the index and the cause.
func (e *IndexError) Error() string { return e.Err.Error() }

// Unwrap returns the function's error.
func (e *IndexError) Unwrap() error { return e.Err }

// TransactionType is the type of a write in a Transaction.
type TransactionType string

// The types of writes in a Transaction.
const (
	TransactionTypeAdd    TransactionType = "Add"
	TransactionTypeUpdate TransactionType = "Update"
	TransactionTypeDelete TransactionType = "Delete"
)

// Transaction is one of several writes.
type Transaction[T informer.Object] struct {
	Object T
	Type   TransactionType
}

// TransactionError reports which writes of a transaction failed. The others have happened.
type TransactionError struct {
	// SuccessfulIndices are the indexes of the writes that happened.
	SuccessfulIndices []int
	TotalTransactions int
	Errors            []error
}

// Error counts the failures.
func (e *TransactionError) Error() string {
	return fmt.Sprintf("failed to execute (%d/%d) transactions failed due to: %v",
		e.TotalTransactions-len(e.SuccessfulIndices), e.TotalTransactions, e.Errors)
}

// Unwrap returns the errors.
func (e *TransactionError) Unwrap() []error { return e.Errors }

// Option is an option of New.
type Option[T informer.Object] func(*store[T])

// WithTransformer passes every object through a transformer before it is stored.
func WithTransformer[T informer.Object](transform informer.TransformFunc[T]) Option[T] {
	return func(s *store[T]) { s.transform = transform }
}

// New creates an empty store whose only index is informer.NamespaceIndex.
func New[T informer.Object](key KeyFunc[T], options ...Option[T]) Store[T] {
	return NewIndexer(key, nil, options...)
}

// NewIndexer creates an empty store with indexes. It panics if an index has no function or is named
// informer.NamespaceIndex, which every store has.
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

// prepare returns the key of obj and the object to store for it.
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
		return fmt.Errorf("unknown transaction type %q", w.Type)
	}
}

func (s *store[T]) Bookmark(resourceVersion string) {
	s.Lock()
	defer s.Unlock()
	s.moveTo(resourceVersion)
}

// moveTo moves the store to a resourceVersion. If it is not a number (an object that was never in
// the API has none), the version stays. The caller holds the lock.
func (s *store[T]) moveTo(resourceVersion string) {
	if revision, err := strconv.ParseInt(resourceVersion, 10, 64); err == nil {
		s.MoveTo(revision)
	}
}
