package informer

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"
)

// SharedInformer keeps a view of one resource in memory and tells any number of handlers of
// its changes (client-go, tools/cache.SharedIndexInformer).
type SharedInformer[T Object] interface {
	// AddEventHandler adds a handler, at any time; it is first told of all there is.
	AddEventHandler(handler ResourceEventHandler[T]) (Registration, error)
	// AddEventHandlerWithOptions is AddEventHandler with a resync period of its own.
	AddEventHandlerWithOptions(handler ResourceEventHandler[T], opts HandlerOptions) (Registration, error)
	// RemoveEventHandler ends what AddEventHandler began; nothing is queued for it afterwards.
	RemoveEventHandler(registration Registration) error
	// AddIndexers adds indexes, at any time before the informer has ended.
	AddIndexers(indexers Indexers[T]) error
	// Indexer is the store behind the informer, for reading.
	Indexer() Indexer[T]
	// Lister reads the store.
	Lister() Lister[T]
	// HasSynced says whether the store holds a whole view.
	HasSynced() bool
	// Revision is the etcd revision of which the store is the exact content.
	Revision() int64
	// WaitForRevision returns when the store is at revision or later.
	WaitForRevision(ctx context.Context, revision int64) error
	// Run follows the view until ctx ends, and returns when all handlers have ended.
	Run(ctx context.Context) error
}

// Registration is a handler's place at an informer.
type Registration interface {
	// HasSynced says whether the handler has returned from every call of its initial list.
	HasSynced() bool
}

// HandlerOptions are the options of one handler.
type HandlerOptions struct {
	// ResyncPeriod hands every object over again in this period; never when 0.
	ResyncPeriod time.Duration
}

// IndexFunc gives the values under which an object is found in one index.
type IndexFunc[T Object] func(obj T) ([]string, error)

// Indexers are index functions by the name of their index.
type Indexers[T Object] map[string]IndexFunc[T]

// Indexer reads a store with its indexes.
type Indexer[T Object] interface {
	// GetByKey finds an object by namespace/name, or name.
	GetByKey(key string) (obj T, exists bool)
	// List gives all objects, in no order.
	List() []T
	// ListKeys gives all keys, in no order.
	ListKeys() []string
	// ByIndex gives the objects under a value of an index; an error if there is no such index.
	ByIndex(index, value string) ([]T, error)
	// IndexKeys gives the sorted keys under a value of an index.
	IndexKeys(index, value string) ([]string, error)
}

// Lister reads a store as client-go's generated listers do.
type Lister[T Object] interface {
	// List gives the objects that the selector selects.
	List(selector labels.Selector) ([]T, error)
	// Get finds a cluster-wide object; a NotFound API error if there is none.
	Get(name string) (T, error)
	// Namespace reads one namespace.
	Namespace(namespace string) NamespaceLister[T]
}

// NamespaceLister reads one namespace of a store.
type NamespaceLister[T Object] interface {
	List(selector labels.Selector) ([]T, error)
	Get(name string) (T, error)
}
