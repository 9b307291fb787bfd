package feed

import (
	"slices"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Entry is one object of a Delta.
type Entry struct {
	// Revision is the revision of the object's last change in the view.
	Revision int64
	// Deleted reports whether the object left the view; Object and Raw are then nil.
	Deleted bool
	// Namespace, Name and UID identify the object.
	Namespace, Name, UID string
	// Object is its state. It is shared and must not be modified.
	Object scheme.Object
	// Raw is the value that etcd holds for it.
	Raw []byte
}

// Delta is a statement about a view: in (Prev, Revision] exactly these objects changed, to these
// states. If Whole is set, the view holds exactly these objects at Revision.
type Delta struct {
	// History is the history of the revisions.
	History        store.History
	Whole          bool
	Prev, Revision int64
	Entries        []Entry
}

// Since returns what changed in a view after revision c. It returns the whole view if the feed no
// longer knows, or if the view is a single name: R2. It returns false if the feed cannot be read or
// is itself behind c.
func (f *Feed) Since(view View, c int64) (Delta, bool) {
	f.mu.Lock()
	if !f.readable() || f.state.through < c {
		f.mu.Unlock()
		return Delta{}, false
	}
	if c < f.state.start || view.Name != "" {
		return f.wholeUnlocking(view), true
	}
	delta := Delta{History: f.state.history, Prev: c, Revision: f.state.through}
	if f.state.head(f.state.index(view)) <= c {
		f.mu.Unlock()
		return delta, true
	}
	events := slices.Clone(f.state.after(c))
	f.mu.Unlock()

	seen := map[string]bool{}
	for _, event := range slices.Backward(events) {
		if !event.touches(view) || seen[key(event.Namespace, event.Name)] {
			continue
		}
		seen[key(event.Namespace, event.Name)] = true
		entry := Entry{Revision: event.Revision, Namespace: event.Namespace, Name: event.Name}
		if event.leaves(view) {
			entry.Deleted = true
			gone := event.Previous
			if gone == nil {
				gone = event.Object
			}
			entry.UID = string(gone.GetUID())
		} else {
			entry.UID, entry.Object, entry.Raw = string(event.Object.GetUID()), event.Object, event.Raw
		}
		delta.Entries = append(delta.Entries, entry)
	}
	slices.Reverse(delta.Entries)
	return delta, true
}

// Whole returns the view as it is now; false if the feed cannot be read.
func (f *Feed) Whole(view View) (Delta, bool) {
	f.mu.Lock()
	if !f.readable() {
		f.mu.Unlock()
		return Delta{}, false
	}
	return f.wholeUnlocking(view), true
}

// wholeUnlocking must be called with the lock held, and releases it.
func (f *Feed) wholeUnlocking(view View) Delta {
	delta := Delta{History: f.state.history, Whole: true, Revision: f.state.through}
	items := f.state.items(view)
	f.mu.Unlock()
	sortItems(items)
	delta.Entries = make([]Entry, 0, len(items))
	for _, i := range items {
		delta.Entries = append(delta.Entries, Entry{
			Revision: i.revision, Namespace: i.namespace, Name: i.name,
			UID: string(i.object.GetUID()), Object: i.object, Raw: i.raw,
		})
	}
	return delta
}

// Unchanged returns the view's objects if nothing in it changed after revision c; false if
// something may have.
func (f *Feed) Unchanged(view View, c int64) (Delta, bool) {
	f.mu.Lock()
	if !f.readable() || c < f.state.start || f.state.through < c || f.state.head(f.state.index(view)) > c {
		f.mu.Unlock()
		return Delta{}, false
	}
	return f.wholeUnlocking(view), true
}
