package feed

import (
	"sync"

	"github.com/garboard/garboard/libs/scheme"
)

// View is a part of a resource: the whole of it when empty; else what is in a namespace, has
// a name, and is in a scope (for pods a node, or scheme.Unscoped), as far as these are given.
type View struct {
	Namespace string
	Name      string
	Scope     string
}

// Event is one change of one object. Everything in it is shared and must not be changed.
type Event struct {
	// Revision is etcd's revision of the change.
	Revision int64
	// Deleted says that the object is gone; Object is then its last state, its
	// resourceVersion being that of the deletion.
	Deleted bool
	// Object is the new state, its resourceVersion set.
	Object scheme.Object
	// Previous is the state before; nil if there was none.
	Previous scheme.Object
	// Raw is what etcd holds for Object, in which what was missing is filled in; for a deletion,
	// what it last held.
	Raw []byte
	// Digest is store.Digest of what etcd holds for Object if that is not Raw, and the event is no
	// deletion; else nil.
	Digest []byte
	// PreviousRaw is what Raw was for Previous; nil if there was none.
	PreviousRaw []byte
	// Namespace and Name are the object's.
	Namespace, Name string
	// Scope is the scope of Object; for a deletion the one that it was in.
	Scope string
	// OldScope is the scope of Previous; Scope if there was none. The object left OldScope
	// if the two differ.
	OldScope string
	// PrevAll, PrevNamespace, PrevScope and PrevOldScope are the revisions of the change
	// before this one in the whole resource, the namespace, Scope and OldScope, as known when
	// the feed took the event in; the start of the window then, if there was none in it.
	PrevAll, PrevNamespace, PrevScope, PrevOldScope int64
	// Alone says that the event is the resource's only one at its revision.
	Alone bool
	// Encodings are those of Object.
	Encodings *Encodings

	left struct {
		once      sync.Once
		object    scheme.Object
		encodings *Encodings
	}

	// unreadable says that etcd holds a value which cannot be read, so that the event shows
	// the object as deleted.
	unreadable bool
}

// touches says whether the event changes what the view holds.
func (e *Event) touches(view View) bool {
	return (view.Namespace == "" || e.Namespace == view.Namespace) &&
		(view.Name == "" || e.Name == view.Name) &&
		(view.Scope == "" || e.Scope == view.Scope || e.OldScope == view.Scope)
}

// leaves says whether the object of an event that touches the view is not in it afterwards.
func (e *Event) leaves(view View) bool {
	return e.Deleted || view.Scope != "" && e.Scope != view.Scope
}

// Left is the state before the event, its resourceVersion being that of the event: what a
// watcher is sent when the object is gone from what it watches. nil if there was none before.
func (e *Event) Left() (scheme.Object, *Encodings) {
	if e.Deleted {
		return e.Object, e.Encodings
	}
	if e.Previous == nil {
		return nil, nil
	}
	e.left.once.Do(func() {
		e.left.object = withRevision(e.Previous, e.Revision)
		e.left.encodings = &Encodings{shelf: e.Encodings.shelf}
	})
	return e.left.object, e.left.encodings
}

func (e *Event) size() int { return len(e.Raw) + len(e.PreviousRaw) }

// Batch is what happened in a view up to a revision.
type Batch struct {
	// Revision is that up to which the watcher has now heard everything in its view.
	Revision int64
	// Head is the revision of the last change of the whole resource at or below Revision; the
	// start of the feed's window if there was none in it.
	Head int64
	// Start is the start of the feed's window.
	Start int64
	// Events are the changes, oldest first; none if the batch only tells of progress.
	Events []*Event
}
