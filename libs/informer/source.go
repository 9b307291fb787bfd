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
	// Refresh returns when the content passed to the sink is at least as new as etcd was at the
	// time of the call. It returns ErrNotFresh if that cannot be known at the moment.
	Refresh(ctx context.Context) error
	// Via names what carries the changes at this moment: watcher.ViaNATS or watcher.ViaHTTP; empty
	// if that is not known. It must not call the sink, nor wait for a call of the sink to return.
	Via() string
	// Why says why HTTP carries the changes in place of NATS; empty if that is not so. Like Via, it
	// must not call the sink.
	Why() string
	// Resumes reports whether the follower can resume.
	Resumes() bool
	// Resume makes Run begin with the content of an earlier process instead of with nothing. The
	// content is exact for the position. The sink already holds it; the follower then calls
	// Confirmed or Replace once it knows whether the content still holds. The error is ErrNoResume
	// if the follower cannot resume.
	Resume(at fabric.Position, objects []Object) error
}

var (
	// ErrNotFresh is returned by Refresh if no apiserver can be asked at the moment.
	ErrNotFresh = errors.New("no apiserver can be asked how new the content is")
	// ErrNoResume is returned by Resume if the follower always begins with the whole view.
	ErrNoResume = errors.New("the follower cannot resume")
)

// FollowerDefaults has the methods of a Follower that a follower which only runs need not care
// about: it can neither be hurried nor refreshed, and does not resume. Such followers embed it.
type FollowerDefaults struct{}

// Require does nothing.
func (FollowerDefaults) Require(int64) {}

// Refresh returns ErrNotFresh.
func (FollowerDefaults) Refresh(context.Context) error { return ErrNotFresh }

// Via returns "": the carrier is not known.
func (FollowerDefaults) Via() string { return "" }

// Why returns "".
func (FollowerDefaults) Why() string { return "" }

// Resumes returns false.
func (FollowerDefaults) Resumes() bool { return false }

// Resume returns ErrNoResume.
func (FollowerDefaults) Resume(fabric.Position, []Object) error { return ErrNoResume }

// Sink receives the statements that a follower has accepted, and what else it learns. The calls of
// Replace, Apply and Confirmed come one at a time, in rising revision; after each the content is
// exactly etcd's for that view and revision.
type Sink interface {
	// Replace states that the view holds exactly these objects at a position. Its history is that
	// of everything that follows; it is zero if not known. Objects keep their resourceVersion. Here
	// and in a Change, a *metav1.PartialObjectMetadata stands for an object that exists but cannot
	// be read: its last known state stays.
	Replace(at fabric.Position, objects []Object)
	// Apply states that these changes, in order, lead to revision. No changes at all means that
	// nothing happened up to revision.
	Apply(changes []Change, revision int64)
	// Confirmed reports that the content with which the follower resumed, together with the changes
	// applied since, is now as new as etcd was when the follower asked.
	Confirmed()
	// Known reports that etcd has reached revision, although the follower cannot yet say what the
	// view holds there. The informer's lag is computed from it. Any goroutine may call it at any
	// time.
	Known(revision int64)
	// WatchError reports why the view could not be listed or its watch could not be opened. The
	// follower keeps trying. Any goroutine may call it at any time.
	WatchError(ctx context.Context, err error)
	// Preload fills the store, before the first whole view, with the content from which a follower
	// resumes. That does not make the informer synced. Preload returns false if there is no store.
	Preload(at fabric.Position, objects []Object) bool
	// Intervals calls observe with the current interval, if the informer has synced, and with each
	// later one, until stop is called. Observe must return soon and must not use the informer. A
	// sink without a store never calls it.
	Intervals(observe func(Interval)) (stop func())
}

// SinkDefaults has the methods of a Sink that a sink which only takes content need not care about.
// Such sinks embed it.
type SinkDefaults struct{}

// Confirmed does nothing.
func (SinkDefaults) Confirmed() {}

// Known does nothing.
func (SinkDefaults) Known(int64) {}

// WatchError does nothing.
func (SinkDefaults) WatchError(context.Context, error) {}

// Preload returns false: there is no store.
func (SinkDefaults) Preload(fabric.Position, []Object) bool { return false }

// Intervals never calls observe.
func (SinkDefaults) Intervals(func(Interval)) (stop func()) { return func() {} }

// Interval is an interval of revisions during which a view held the same content.
type Interval = interval.Interval

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
