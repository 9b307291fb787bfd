package informer

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// SharedInformer keeps a view of one resource in memory and notifies any number of handlers of its
// changes (client-go, tools/cache.SharedIndexInformer).
type SharedInformer[T Object] interface {
	// AddEventHandler adds a handler, at any time. The handler first gets every existing object. It
	// is resynced in the informer's period (Config.Resync).
	AddEventHandler(handler ResourceEventHandler[T]) (Registration, error)
	// AddEventHandlerWithOptions is AddEventHandler with a resync period for this handler, and
	// other options.
	AddEventHandlerWithOptions(handler ResourceEventHandler[T], opts HandlerOptions) (Registration, error)
	// RemoveEventHandler removes a handler: nothing more is queued for it, and its pending calls
	// are dropped. A running call may end later. Removing a handler twice, or from another
	// informer, does nothing. A value that is not a registration is an error.
	RemoveEventHandler(registration Registration) error
	// ShutDownEventHandler is RemoveEventHandler, and waits until the handler has returned. The
	// handler itself must not call it: it would wait for ever.
	ShutDownEventHandler(registration Registration) error
	// AddIndexers adds indexes, at any time before the informer has ended.
	AddIndexers(indexers Indexers[T]) error
	// SetTransform passes every object to a function before it is stored; handlers and store see
	// only the result. If it fails for an object, the store keeps the object's former state, and
	// the fault is logged and counted. It returns an error once the informer has started.
	SetTransform(transform TransformFunc[T]) error
	// SetWatchErrorHandler sets the function that the follower calls when the view cannot be listed
	// or watched. The follower keeps trying, so the function must return soon. A later call
	// replaces the function. It returns an error once the informer has started.
	SetWatchErrorHandler(handler func(ctx context.Context, err error)) error
	// Indexer returns the informer's store, for reading.
	Indexer() Indexer[T]
	// Lister returns a Lister that reads the store.
	Lister() Lister[T]
	// HasSynced reports whether the store holds a whole view. It says nothing about handlers.
	HasSynced() bool
	// HasSyncedChecker returns a checker that is done when HasSynced is true.
	HasSyncedChecker() DoneChecker
	// HasStarted reports whether Run was called.
	HasStarted() bool
	// IsStopped reports whether the informer has ended. It never starts again.
	IsStopped() bool
	// Revision is the etcd revision of which the store is the exact content.
	Revision() int64
	// LastSyncResourceVersion is Revision as a resourceVersion; empty before the first view.
	LastSyncResourceVersion() string
	// WaitForRevision returns when the store is at revision or later. The revision must come from
	// the etcd cluster that holds the resource: another cluster's may never be reached, and the
	// wait then lasts until ctx ends. The error is ErrStopped if the informer ends first.
	WaitForRevision(ctx context.Context, revision int64) error
	// Intervals calls observe with the current interval of revisions, if the informer has synced,
	// and with each later one, until stop is called. Observe must return soon and must not use the
	// informer.
	Intervals(observe func(Interval)) (stop func())
	// Status reports what the informer follows, and how far it and its handlers are behind.
	Status() watcher.Status
	// Run follows the view until ctx ends. It returns when the follower and then all handlers have
	// ended; calls still pending for handlers are dropped. An informer runs only once.
	Run(ctx context.Context) error
}

// Registration is a handler's registration with an informer.
type Registration interface {
	// HasSynced reports whether the informer has synced and the handler has returned from every
	// call of its initial list.
	HasSynced() bool
	// HasSyncedChecker returns a checker that is done when HasSynced is true.
	HasSyncedChecker() DoneChecker
}

// HandlerOptions are the options of one handler.
type HandlerOptions struct {
	// Name names the handler in logs, metrics and reports; the Go type when empty.
	Name string
	// ResyncPeriod is how often the handler gets every object again, as OnUpdate from an object to
	// itself. 0 means never; otherwise the period is at least a second.
	ResyncPeriod time.Duration
	// Backlog is the number of pending notifications from which the pending updates of one object
	// coalesce. 0 means Config.Backlog; negative means never.
	Backlog int
	// Logger logs the handler's panics; the informer's logger when nil.
	Logger *slog.Logger
}

// IndexFunc returns the values (none, one or many) under which one index finds an object. It is
// called while the store is locked, so it must not use the store. If it fails or panics, the object
// is left out of that index, which is logged and counted.
type IndexFunc[T Object] func(obj T) ([]string, error)

// Indexers maps index names to their index functions.
type Indexers[T Object] map[string]IndexFunc[T]

// Indexer reads a store with its indexes.
type Indexer[T Object] interface {
	// GetByKey finds an object by namespace/name, or name.
	GetByKey(key string) (obj T, exists bool)
	// List returns all objects, in no order.
	List() []T
	// ListKeys returns all keys, in no order.
	ListKeys() []string
	// ByIndex returns the objects under a value of an index; an error if there is no such index.
	ByIndex(index, value string) ([]T, error)
	// IndexKeys returns the sorted keys under a value of an index.
	IndexKeys(index, value string) ([]string, error)
	// Index returns the objects that share a value of an index with obj, each once.
	Index(index string, obj T) ([]T, error)
	// ListIndexFuncValues returns the sorted values of an index that have objects.
	ListIndexFuncValues(index string) []string
	// GetIndexers returns the index functions.
	GetIndexers() Indexers[T]
	// LastStoreSyncResourceVersion is the version of the content: a caller that reads it and then
	// lists sees that version or a later one. It is empty if the store was never written.
	LastStoreSyncResourceVersion() string
}

// Lister reads a store as client-go's generated listers do.
type Lister[T Object] interface {
	// List returns the objects that match the selector.
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
