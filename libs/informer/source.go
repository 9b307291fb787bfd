package informer

import (
	"context"

	"github.com/garboard/garboard/libs/scheme"
)

// Object is an API object with metadata.
type Object = scheme.Object

// View is a part of a resource that an informer follows: the whole resource when empty,
// else a namespace, one name in a namespace, or one scope (for pods a node, or
// scheme.Unscoped for those that have none).
type View struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	Scope     string `json:"scope,omitempty"`
}

// Source makes followers of views: over NATS (package follow) or over HTTP list and watch
// (package listwatch).
type Source interface {
	Follower(kind *scheme.Kind, view View, sink Sink) Follower
}

// Follower keeps one view true to etcd until it is told to end.
type Follower interface {
	// Run follows the view until ctx ends, through every fault of the network. It returns
	// only an error that no waiting can mend.
	Run(ctx context.Context) error
	// Require asks for content at or above a revision, for one who will not read older.
	Require(revision int64)
}

// Sink takes the statements that a follower has accepted. Calls come one at a time, in
// rising revision; after each the content is exactly etcd's for that view and revision.
type Sink interface {
	// Replace says that the view holds exactly these objects at revision. Objects keep
	// their resourceVersion. A *metav1.PartialObjectMetadata stands for one that is there and
	// cannot be read, here and in a Change: what was known of it stays.
	Replace(objects []Object, revision int64)
	// Apply says that these changes, in order, lead to revision. No changes at all means
	// that nothing happened up to revision.
	Apply(changes []Change, revision int64)
}

// Notices is what a Sink may be besides, as the informer's is: it takes what a follower learns
// that is not content. Its methods may be called at any time, by any goroutine.
type Notices interface {
	// Known says that etcd has come to revision, as the follower heard though it cannot yet
	// say what the view holds there. From it comes how far an informer lags behind.
	Known(revision int64)
	// WatchError says that the view could not be listed or its watch not be opened, and why.
	// The follower goes on trying.
	WatchError(ctx context.Context, err error)
}

// Change is one change of one object.
type Change struct {
	// Revision is etcd's revision of the change.
	Revision int64
	// Deleted says that the object is gone from the view: deleted, or moved to another scope.
	Deleted bool
	// Namespace, Name and UID name the object.
	Namespace, Name, UID string
	// Object is the new state; for a deletion the last state if it was sent, else nil.
	Object Object
}
