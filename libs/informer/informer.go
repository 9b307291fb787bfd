package informer

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// SharedInformer keeps a view of one resource in memory and tells any number of handlers of
// its changes (client-go, tools/cache.SharedIndexInformer).
type SharedInformer[T Object] interface {
	// AddEventHandler adds a handler, at any time; it is first told of all there is. It is
	// resynced in the informer's period (Config.Resync).
	AddEventHandler(handler ResourceEventHandler[T]) (Registration, error)
	// AddEventHandlerWithOptions is AddEventHandler with a resync period of its own, and more.
	AddEventHandlerWithOptions(handler ResourceEventHandler[T], opts HandlerOptions) (Registration, error)
	// RemoveEventHandler ends what AddEventHandler began; nothing is queued for it afterwards,
	// and what is pending is dropped. A call that runs may still end later. Removing twice, or
	// at another informer, does nothing; what is no registration is an error.
	RemoveEventHandler(registration Registration) error
	// ShutDownEventHandler is RemoveEventHandler, and waits until the handler has returned.
	// The handler itself must not call it, since it would wait for ever.
	ShutDownEventHandler(registration Registration) error
	// AddIndexers adds indexes, at any time before the informer has ended.
	AddIndexers(indexers Indexers[T]) error
	// SetTransform gives every object to a function before it is stored; handlers and store see
	// only its result. One that it fails for keeps its former state in the store, which is
	// logged and counted. An error once the informer has started.
	SetTransform(transform TransformFunc[T]) error
	// SetWatchErrorHandler is told when the view cannot be listed or watched, by the follower,
	// which goes on trying: it must return soon. The last one set is told. An error once the
	// informer has started.
	SetWatchErrorHandler(handler func(ctx context.Context, err error)) error
	// Indexer is the store behind the informer, for reading.
	Indexer() Indexer[T]
	// Lister reads the store.
	Lister() Lister[T]
	// HasSynced says whether the store holds a whole view. It says nothing of handlers.
	HasSynced() bool
	// HasSyncedChecker is done when HasSynced is true.
	HasSyncedChecker() DoneChecker
	// HasStarted says whether Run was called.
	HasStarted() bool
	// IsStopped says whether the informer has ended. It never starts again.
	IsStopped() bool
	// Revision is the etcd revision of which the store is the exact content.
	Revision() int64
	// LastSyncResourceVersion is Revision as a resourceVersion; empty before the first view.
	LastSyncResourceVersion() string
	// WaitForRevision returns when the store is at revision or later. It must be one of the etcd
	// cluster that holds the resource; for others the wait ends with ctx.
	WaitForRevision(ctx context.Context, revision int64) error
	// Status says what the informer follows, and how far it and its handlers are behind.
	Status() watcher.Status
	// Run follows the view until ctx ends, and returns when the follower and then all handlers
	// have ended; what is still pending for handlers is dropped. An informer runs once.
	Run(ctx context.Context) error
}

// Registration is a handler's place at an informer.
type Registration interface {
	// HasSynced says whether the informer has synced and the handler has returned from every
	// call of its initial list.
	HasSynced() bool
	// HasSyncedChecker is done when HasSynced is true.
	HasSyncedChecker() DoneChecker
}

// HandlerOptions are the options of one handler.
type HandlerOptions struct {
	// Name names the handler in logs, metrics and reports; the Go type when empty.
	Name string
	// ResyncPeriod hands every object over again in this period, as OnUpdate of one object to
	// itself; never when 0, at least a second else.
	ResyncPeriod time.Duration
	// Backlog is from how many pending notifications on the pending updates of one object
	// coalesce; Config.Backlog when 0, never when negative.
	Backlog int
	// Logger takes the handler's panics; the informer's when nil.
	Logger *slog.Logger
}

// IndexFunc gives the values, none, one or many, under which an object is found in one index.
// It is called while the store is locked: it must not use the store. One that fails or panics
// leaves the object out of its index, which is logged and counted.
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
	// Index gives the objects that have a value of an index in common with obj, each once.
	Index(index string, obj T) ([]T, error)
	// ListIndexFuncValues gives the sorted values of an index under which there are objects.
	ListIndexFuncValues(index string) []string
	// GetIndexers gives the index functions.
	GetIndexers() Indexers[T]
	// LastStoreSyncResourceVersion is the version of the content: who reads it and then lists
	// sees that version or a later one. Empty if the store was never written.
	LastStoreSyncResourceVersion() string
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
