package feed

import (
	"slices"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
)

// Entry is one change of a Statement; in a whole view, one object.
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

// Statement is a statement about a view of the feed.
type Statement = fabric.Statement[Entry]

// Since returns what changed in a view after revision c. It returns the whole view if the feed no
// longer knows, or if the view is a single name: R2. It returns false if the feed cannot be read or
// is itself behind c.
func (f *Feed) Since(view fabric.View, c int64) (Statement, bool) {
	f.mu.Lock()
	if !f.readable() || f.state.through < c {
		f.mu.Unlock()
		return Statement{}, false
	}
	if c < f.state.start || view.Name != "" {
		return f.wholeUnlocking(view), true
	}
	statement := Statement{History: f.state.history, Prev: c, Revision: f.state.through}
	if f.state.head(f.state.index(view)) <= c {
		f.mu.Unlock()
		return statement, true
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
		statement.Changes = append(statement.Changes, entry)
	}
	slices.Reverse(statement.Changes)
	return statement, true
}

// Whole returns the view as it is now; false if the feed cannot be read.
func (f *Feed) Whole(view fabric.View) (Statement, bool) {
	f.mu.Lock()
	if !f.readable() {
		f.mu.Unlock()
		return Statement{}, false
	}
	return f.wholeUnlocking(view), true
}

// wholeUnlocking must be called with the lock held, and releases it.
func (f *Feed) wholeUnlocking(view fabric.View) Statement {
	statement := Statement{History: f.state.history, Whole: true, Prev: fabric.Always, Revision: f.state.through}
	items := f.state.items(view)
	f.mu.Unlock()
	sortItems(items)
	statement.Changes = make([]Entry, 0, len(items))
	for _, i := range items {
		statement.Changes = append(statement.Changes, Entry{
			Revision: i.revision, Namespace: i.namespace, Name: i.name,
			UID: string(i.object.GetUID()), Object: i.object, Raw: i.raw,
		})
	}
	return statement
}

// Unchanged returns the view's objects if nothing in it changed after revision c; false if
// something may have.
func (f *Feed) Unchanged(view fabric.View, c int64) (Statement, bool) {
	f.mu.Lock()
	if !f.readable() || c < f.state.start || f.state.through < c || f.state.head(f.state.index(view)) > c {
		f.mu.Unlock()
		return Statement{}, false
	}
	return f.wholeUnlocking(view), true
}
