package informer

import (
	"context"
	"errors"

	"github.com/garboard/garboard/libs/informer/internal/interval"
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

// Continuity is what a Sink may be besides, as the informer's is: it takes what binds content
// to etcd's history. Its methods are called among those of Sink, one at a time.
type Continuity interface {
	// History says to which life of which etcd cluster the content of the next Replace, and
	// all that follows it, belongs; empty if that is not known. Revisions of different
	// histories have nothing to do with each other.
	History(history string)
	// Confirmed says that content with which the follower resumed is now, with what was applied
	// since, as new as etcd was when it was asked.
	Confirmed()
}

// ErrNotFresh is the error of a Refresher that cannot ask anybody at the moment.
var ErrNotFresh = errors.New("nobody can be asked how new the content is")

// Refresher is what a Follower may be besides.
type Refresher interface {
	// Refresh returns when the content that the sink was given is at least as new as etcd was
	// at the call; ErrNotFresh if that cannot be known at the moment.
	Refresh(ctx context.Context) error
}

// Carried is what a Follower may be besides.
type Carried interface {
	// Via says what carries the changes at this moment: watcher.ViaNATS or watcher.ViaHTTP. It
	// must not call the sink, nor wait for one that is being called.
	Via() string
}

// Resumer is what a Follower may be besides.
type Resumer interface {
	// Resume has Run begin with the content of an earlier life, exact for a revision of a
	// history, in place of nothing. The sink holds it already, and hears Confirmed or Replace
	// when it is known what became of it.
	Resume(history string, revision int64, objects []Object) error
}

// Stretch is what a view held from one revision to another, without a change in between.
type Stretch = interval.Stretch

// Stretcher is what an informer is besides, as a SharedInformer and as a Sink.
type Stretcher interface {
	// Stretches tells observe of what the view holds now, if it has synced, and of each stretch
	// that comes, until stop is called. Observe must return soon and not use the informer.
	Stretches(observe func(Stretch)) (stop func())
	// Preload fills the store before the first whole view with what a follower resumes. The
	// informer has not synced by that.
	Preload(history string, revision int64, objects []Object)
}

// Change is one change of one object.
type Change struct {
	// Revision is etcd's revision of the change.
	Revision int64
	// Prev, unless it is 0, says that this is the only change of the view after Prev and up to
	// Revision. Without it states in between may have been left out.
	Prev int64
	// Deleted says that the object is gone from the view: deleted, or moved to another scope.
	Deleted bool
	// Namespace, Name and UID name the object.
	Namespace, Name, UID string
	// Object is the new state; for a deletion the last state if it was sent, else nil. It is nil
	// for the deletion of what the sink was never told of.
	Object Object
}
