package informer

import (
	"context"
	"errors"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer/internal/interval"
	"github.com/garboard/garboard/libs/scheme"
)

// Object is an API object with metadata.
type Object = scheme.Object

// View is the part of a resource that an informer follows. It is the whole resource when empty,
// otherwise a namespace, one name in a namespace, or one scope.
type View = fabric.View

// Source creates followers of views, over NATS (package fabricsource) or over HTTP list and watch
// (package listwatch).
type Source interface {
	Follower(kind *scheme.Kind, view View, sink Sink) Follower
}

// Follower keeps one view true to etcd until its context ends.
type Follower interface {
	// Run follows the view until ctx ends, through every network fault. It returns an error only if
	// retrying cannot help.
	Run(ctx context.Context) error
	// Require asks for content at or above a revision, for a reader that does not accept older
	// content.
	Require(revision int64)
}

// Sink receives the statements that a follower has accepted. Calls come one at a time, in rising
// revision; after each the content is exactly etcd's for that view and revision.
type Sink interface {
	// Replace states that the view holds exactly these objects at revision. Objects keep their
	// resourceVersion. Here and in a Change, a *metav1.PartialObjectMetadata stands for an object
	// that exists but cannot be read: its last known state stays.
	Replace(objects []Object, revision int64)
	// Apply states that these changes, in order, lead to revision. No changes at all means that
	// nothing happened up to revision.
	Apply(changes []Change, revision int64)
}

// Notices is an optional interface of a Sink; the informer's sink implements it. It receives what a
// follower learns beyond content. Any goroutine may call its methods at any time.
type Notices interface {
	// Known reports that etcd has reached revision, although the follower cannot yet say what the
	// view holds there. The informer's lag is computed from it.
	Known(revision int64)
	// WatchError reports why the view could not be listed or its watch could not be opened. The
	// follower keeps trying.
	WatchError(ctx context.Context, err error)
}

// Continuity is an optional interface of a Sink; the informer's sink implements it. It ties content
// to etcd's history. Its methods are called in sequence with those of Sink, one at a time.
type Continuity interface {
	// History names the life of the etcd cluster to which the content of the next Replace, and
	// everything after it, belongs. It is empty if that is not known. Revisions of different
	// histories cannot be compared.
	History(history string)
	// Confirmed reports that the content with which the follower resumed, together with the changes
	// applied since, is now as new as etcd was when the follower asked.
	Confirmed()
}

// ErrNotFresh is the error of a Refresher that cannot ask an apiserver at the moment.
var ErrNotFresh = errors.New("no apiserver can be asked how new the content is")

// Refresher is an optional interface of a Follower.
type Refresher interface {
	// Refresh returns when the content passed to the sink is at least as new as etcd was at the
	// time of the call. It returns ErrNotFresh if that cannot be known at the moment.
	Refresh(ctx context.Context) error
}

// Carried is an optional interface of a Follower.
type Carried interface {
	// Via names what carries the changes at this moment: watcher.ViaNATS or watcher.ViaHTTP. It
	// must not call the sink, nor wait for a call of the sink to return.
	Via() string
}

// Resumer is an optional interface of a Follower.
type Resumer interface {
	// Resume makes Run begin with the content of an earlier process instead of with nothing. The
	// content is exact for a revision of a history. The sink already holds it; the follower then
	// calls Confirmed or Replace once it knows whether the content still holds.
	Resume(history string, revision int64, objects []Object) error
}

// Stretch is an interval of revisions during which a view held the same content.
type Stretch = interval.Stretch

// Stretcher is an additional interface of an informer, both as a SharedInformer and as a Sink.
type Stretcher interface {
	// Stretches calls observe with the current interval, if the informer has synced, and with each
	// later one, until stop is called. Observe must return soon and must not use the informer.
	Stretches(observe func(Stretch)) (stop func())
	// Preload fills the store, before the first whole view, with the content from which a follower
	// resumes. That does not make the informer synced.
	Preload(history string, revision int64, objects []Object)
}

// Change is one change of one object.
type Change struct {
	// Revision is etcd's revision of the change.
	Revision int64
	// Prev, unless it is 0, means that this is the only change of the view after Prev and up to
	// Revision. If it is 0, states in between may have been left out.
	Prev int64
	// Deleted means that the object is gone from the view: deleted, or moved to another scope.
	Deleted bool
	// Namespace, Name and UID name the object.
	Namespace, Name, UID string
	// Object is the new state. For a deletion it is the last state if that was sent, otherwise nil.
	// It is nil for the deletion of an object that the sink never heard of.
	Object Object
}
