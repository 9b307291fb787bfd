package feed

import (
	"cmp"
	"slices"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/encoded"
)

// item is one current object.
type item struct {
	key       string
	namespace string
	name      string
	scope     string
	revision  int64
	object    scheme.Object
	raw       []byte
	plain     []byte
	encodings *encoded.Forms
}

func (i *item) in(view fabric.View) bool { return view.Holds(i.namespace, i.name, i.scope) }

// state is what a feed knows: the objects at through, and every change in (start, through]. It is
// not safe for concurrent use.
type state struct {
	kind    *scheme.Kind
	history fabric.History
	epoch   <-chan struct{} // closed when the epoch in which the state began ends
	start   int64           // W
	through int64           // S
	objects map[string]*item
	// parts are the objects of each namespace and each scope.
	parts map[fabric.View]map[string]*item
	// heads are the revisions of the last change, if above start: for the whole resource, for each
	// namespace and for each scope.
	heads  map[fabric.View]int64
	window []*Event
	bytes  int
	// unreadable are the keys whose current values cannot be read and therefore are not shown.
	unreadable map[string]struct{}
	cache      *encoded.Cache
}

func newState(kind *scheme.Kind, history fabric.History, start int64, cache *encoded.Cache) *state {
	return &state{
		kind: kind, history: history, start: start, through: start,
		objects: map[string]*item{}, parts: map[fabric.View]map[string]*item{}, heads: map[fabric.View]int64{},
		unreadable: map[string]struct{}{}, cache: cache,
	}
}

// over reports whether the epoch in which the state began has ended.
func (s *state) over() bool {
	select {
	case <-s.epoch:
		return true
	default:
		return false
	}
}

// begin adds an object as it is at the start of the window.
func (s *state) begin(revision int64, c change) {
	if c.unreadable {
		s.unreadable[key(c.namespace, c.name)] = struct{}{}
		return
	}
	s.put(s.itemOf(revision, c))
}

func (s *state) itemOf(revision int64, c change) *item {
	return &item{
		key: key(c.namespace, c.name), namespace: c.namespace, name: c.name, scope: s.kind.ScopeOf(c.object),
		revision: revision, object: c.object, raw: c.raw, plain: c.plain, encodings: s.cache.Forms(),
	}
}

// index returns the smallest part that contains the view and for which the state keeps a head and a
// set of objects.
func (s *state) index(view fabric.View) fabric.View {
	switch {
	case s.scoped() && view.Scope != "":
		return fabric.View{Scope: view.Scope}
	case s.kind.Namespaced && view.Namespace != "":
		return fabric.View{Namespace: view.Namespace}
	}
	return fabric.View{}
}

func (s *state) scoped() bool { return s.kind.Scope != nil }

// head returns the revision of the last change of an index, as far as the window knows. Otherwise
// it returns the start of the window, which is never too low: F3.
func (s *state) head(index fabric.View) int64 { return max(s.start, s.heads[index]) }

func key(namespace, name string) string { return namespace + "/" + name }

func (s *state) put(i *item) {
	s.remove(i.key)
	s.objects[i.key] = i
	for _, part := range s.partsOf(i.namespace, i.scope) {
		if s.parts[part] == nil {
			s.parts[part] = map[string]*item{}
		}
		s.parts[part][i.key] = i
	}
}

func (s *state) remove(key string) {
	old := s.objects[key]
	if old == nil {
		return
	}
	delete(s.objects, key)
	for _, part := range s.partsOf(old.namespace, old.scope) {
		delete(s.parts[part], key)
		if len(s.parts[part]) == 0 {
			delete(s.parts, part)
		}
	}
}

func (s *state) partsOf(namespace, scope string) []fabric.View {
	var parts []fabric.View
	if s.kind.Namespaced {
		parts = append(parts, fabric.View{Namespace: namespace})
	}
	if s.scoped() {
		parts = append(parts, fabric.View{Scope: scope})
	}
	return parts
}

// change is one key's new state at a revision. object is nil if the key is gone, or if its value
// cannot be read and therefore is not shown.
type change struct {
	namespace, name string
	object          scheme.Object
	raw             []byte // etcd's value with defaults applied
	plain           []byte // within raw; see scheme.Plain
	digest          []byte // of etcd's value if raw differs from it
	unreadable      bool
}

// apply applies all changes of one revision, which must be above through, and returns their events.
func (s *state) apply(revision int64, changes []change) []*Event {
	var events []*Event
	for _, c := range changes {
		if event := s.applyOne(revision, c); event != nil {
			events = append(events, event)
		}
	}
	for _, event := range events {
		event.Alone = len(events) == 1
		s.heads[fabric.View{}] = revision
		for _, part := range s.partsOf(event.Namespace, event.Scope) {
			s.heads[part] = revision
		}
		if event.OldScope != event.Scope {
			s.heads[fabric.View{Scope: event.OldScope}] = revision
		}
		s.bytes += event.size()
	}
	s.window = append(s.window, events...)
	s.through = revision
	return events
}

// applyOne changes the objects but not the heads: all events of a revision have the heads before it
// as their prevs, F3. The previous state is what the state holds, not what etcd reports: F4.
func (s *state) applyOne(revision int64, c change) *Event {
	key := key(c.namespace, c.name)
	if c.unreadable {
		s.unreadable[key] = struct{}{}
	} else {
		delete(s.unreadable, key)
	}
	old := s.objects[key]
	if c.object == nil && old == nil {
		return nil
	}
	event := &Event{
		Revision: revision, Deleted: c.object == nil, Object: c.object, Raw: c.raw, Digest: c.digest,
		Namespace: c.namespace, Name: c.name, unreadable: c.unreadable,
	}
	if old != nil {
		event.Previous, event.PreviousRaw, event.OldScope = old.object, old.raw, old.scope
	}
	if event.Deleted {
		event.Object, event.Raw, event.Scope = withRevision(old.object, revision), old.raw, old.scope
		event.Encodings = s.cache.Forms()
		s.remove(key)
	} else {
		present := s.itemOf(revision, c)
		event.Scope, event.Encodings = present.scope, present.encodings
		s.put(present)
	}
	if old == nil {
		event.OldScope = event.Scope
	}
	event.PrevAll = s.head(fabric.View{})
	event.PrevNamespace = event.PrevAll
	if s.kind.Namespaced {
		event.PrevNamespace = s.head(fabric.View{Namespace: event.Namespace})
	}
	event.PrevScope, event.PrevOldScope = event.PrevAll, event.PrevAll
	if s.scoped() {
		event.PrevScope = s.head(fabric.View{Scope: event.Scope})
		event.PrevOldScope = s.head(fabric.View{Scope: event.OldScope})
	}
	return event
}

// trim drops the oldest revisions until the window is within its bounds; start rises: F1.
func (s *state) trim(events, bytes int) {
	drop := 0
	for drop < len(s.window) && (len(s.window)-drop > events || s.bytes > bytes) {
		revision := s.window[drop].Revision
		for drop < len(s.window) && s.window[drop].Revision == revision {
			s.forgetHeads(s.window[drop])
			s.bytes -= s.window[drop].size()
			s.window[drop] = nil
			drop++
		}
		s.start = revision
	}
	s.window = s.window[drop:]
}

// forgetHeads removes heads that would fall to the start of the window. head returns that anyway,
// and views come and go.
func (s *state) forgetHeads(event *Event) {
	views := append(s.partsOf(event.Namespace, event.Scope), fabric.View{})
	if event.OldScope != event.Scope {
		views = append(views, fabric.View{Scope: event.OldScope})
	}
	for _, view := range views {
		if s.heads[view] <= event.Revision {
			delete(s.heads, view)
		}
	}
}

// after returns the window's events above a revision, which must not be below start.
func (s *state) after(revision int64) []*Event {
	first, _ := slices.BinarySearchFunc(s.window, revision+1, func(e *Event, r int64) int { return cmp.Compare(e.Revision, r) })
	return s.window[first:]
}

// items returns the view's objects, in no particular order.
func (s *state) items(view fabric.View) []*item {
	if view.Name != "" && (view.Namespace != "" || !s.kind.Namespaced) {
		if found := s.objects[key(view.Namespace, view.Name)]; found != nil && found.in(view) {
			return []*item{found}
		}
		return nil
	}
	from := s.objects
	if index := s.index(view); index != (fabric.View{}) {
		from = s.parts[index]
	}
	items := make([]*item, 0, len(from))
	for _, i := range from {
		if i.in(view) {
			items = append(items, i)
		}
	}
	return items
}
