package feed

import (
	"sync"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/encoded"
)

// Event is one change of one object. Everything in it is shared and must not be modified.
type Event struct {
	// Revision is etcd's revision of the change.
	Revision int64
	// Deleted reports whether the object is gone; Object is then its last state, with the revision
	// of the deletion as its resourceVersion.
	Deleted bool
	// Object is the new state, with its resourceVersion set.
	Object scheme.Object
	// Previous is the state before the change; nil if there was none.
	Previous scheme.Object
	// Raw is the value that etcd holds for Object, with defaults applied; for a deletion, the last
	// value.
	Raw []byte
	// Digest is store.Digest of the value in etcd if Raw differs from it and the event is not a
	// deletion; else nil.
	Digest []byte
	// PreviousRaw is the Raw of Previous; nil if there was none.
	PreviousRaw []byte
	// Namespace and Name identify the object.
	Namespace, Name string
	// Scope is the scope of Object; for a deletion, the scope it was in.
	Scope string
	// OldScope is the scope of Previous; Scope if there was none. If the two differ, the object
	// left OldScope.
	OldScope string
	// PrevAll, PrevNamespace, PrevScope and PrevOldScope are the revisions of the preceding change
	// in the whole resource, the namespace, Scope and OldScope, as known when the feed received the
	// event. If the window held no such change, they are the start of the window at that time.
	PrevAll, PrevNamespace, PrevScope, PrevOldScope int64
	// Alone reports whether the event is the resource's only one at its revision.
	Alone bool
	// Encodings are the encodings of Object.
	Encodings *encoded.Forms

	left struct {
		once      sync.Once
		object    scheme.Object
		encodings *encoded.Forms
	}

	// unreadable reports whether etcd holds a value that cannot be read, so that the event shows
	// the object as deleted.
	unreadable bool
}

// touches reports whether the event changes the contents of the view.
func (e *Event) touches(view fabric.View) bool {
	return view.Holds(e.Namespace, e.Name, e.Scope) || view.Holds(e.Namespace, e.Name, e.OldScope)
}

// leaves reports whether the object of an event that touches the view is no longer in it
// afterwards.
func (e *Event) leaves(view fabric.View) bool {
	return e.Deleted || view.Scope != "" && e.Scope != view.Scope
}

// Left returns the state before the event, with the event's resourceVersion: what a watcher
// receives when the object leaves the watched view. It returns nil if there was no state before.
func (e *Event) Left() (scheme.Object, *encoded.Forms) {
	if e.Deleted {
		return e.Object, e.Encodings
	}
	if e.Previous == nil {
		return nil, nil
	}
	e.left.once.Do(func() {
		e.left.object = withRevision(e.Previous, e.Revision)
		e.left.encodings = e.Encodings.Another()
	})
	return e.left.object, e.left.encodings
}

func (e *Event) size() int { return len(e.Raw) + len(e.PreviousRaw) }

// Batch is what happened in a view up to a revision.
type Batch struct {
	// Revision is the revision up to which the watcher now knows everything in its view.
	Revision int64
	// Head is the revision of the whole resource's last change at or below Revision; the start of
	// the feed's window if the window holds none.
	Head int64
	// Start is the start of the feed's window.
	Start int64
	// Events are the changes, oldest first; empty if the batch only reports progress.
	Events []*Event
}
