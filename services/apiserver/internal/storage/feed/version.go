package feed

import (
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
)

// Version identifies the state of a view: as long as the Version is the same, so are the view's
// objects. The zero Version means that nothing is known.
type Version struct {
	// Start counts how often the feed was read anew, from 1.
	Start int64
	// Head is the last revision at which the view may have changed.
	Head int64
}

// CachedSince is CachedIn for a reader that keeps a result computed from the objects at version
// have. While the objects are the same, changed is false and nothing is read. changed is also false
// while the feed cannot be read: the reader keeps what it has, which is nothing for the zero
// Version. CachedSince never waits.
func (f *Feed) CachedSince(view fabric.View, have Version) (objects []scheme.Object, now Version, changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.readable() {
		return nil, have, false
	}
	now = Version{Start: f.starts, Head: f.state.head(f.state.index(view))}
	if now == have {
		return nil, have, false
	}
	items := f.state.items(view)
	objects = make([]scheme.Object, len(items))
	for n, i := range items {
		objects[n] = i.object
	}
	return objects, now, true
}
