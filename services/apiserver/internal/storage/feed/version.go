package feed

import "github.com/garboard/garboard/libs/scheme"

// Version names what a feed has of a view: as long as it stays the same, so do the view's
// objects. The zero Version is that of nothing.
type Version struct {
	// Start counts how often the feed was read anew, from 1.
	Start int64
	// Head is the last revision at which the view may have changed.
	Head int64
}

// CachedSince is CachedIn for a reader who keeps what he made of the objects of version have:
// while they are the same, changed is false and nothing is read. So it is while the feed cannot
// be read, which leaves the reader with what he knows; if that is the zero Version, he knows
// nothing. It never waits.
func (f *Feed) CachedSince(view View, have Version) (objects []scheme.Object, now Version, changed bool) {
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
