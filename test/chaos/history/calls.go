package history

import (
	"fmt"
	"slices"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/test/chaos/record"
)

// call checks a call of a handler: no step backwards, no update across UIDs, no delete of an object
// that still exists, nothing that etcd never held.
func (c *Checker) call(s *subject, e record.Event) {
	switch {
	case e.What == record.Add && len(e.Objects) == 1:
		o := e.Objects[0]
		if old, there := s.reported[o.Key]; there {
			c.violate("%s: add of %s %s at %d, which it already knows as %v", s.name, o.Key, o.UID, o.Revision, old)
		}
		c.state(s, "add", o, s.gone[o.Key])
		s.put(o)
	case e.What == record.Update && len(e.Objects) == 2:
		before, o := e.Objects[0], e.Objects[1]
		old, there := s.reported[o.Key]
		switch {
		case !there:
			c.violate("%s: update of %s, which it does not know", s.name, o.Key)
		case old != (entry{before.UID, before.Revision}):
			c.violate("%s: update of %s from %s at %d, while it knows %v", s.name, o.Key, before.UID, before.Revision, old)
		case before.UID != o.UID:
			c.violate("%s: update of %s from uid %s to uid %s", s.name, o.Key, before.UID, o.UID)
		}
		c.state(s, "update", o, old.revision)
		s.put(o)
	case e.What == record.Delete && len(e.Objects) == 1:
		o := e.Objects[0]
		old, there := s.reported[o.Key]
		switch {
		case !there:
			c.violate("%s: delete of %s, which it does not know", s.name, o.Key)
		case o.UID != "" && old.uid != o.UID:
			c.violate("%s: delete of %s with uid %s, while it knows uid %s", s.name, o.Key, o.UID, old.uid)
		case !c.left(s, o.Key, old.uid):
			c.violate("%s (%s %+v): delete of %s with uid %s, which never left the view", s.name, s.resource, s.view, o.Key, old.uid)
		}
		s.digest -= digest(o.Key, old)
		delete(s.reported, o.Key)
		s.gone[o.Key] = old.revision
	default:
		c.violate("%s: %q with %d objects is unknown", s.name, e.What, len(e.Objects))
	}
}

func (s *subject) put(o record.Object) {
	if old, there := s.reported[o.Key]; there {
		s.digest -= digest(o.Key, old)
	}
	s.reported[o.Key] = entry{o.UID, o.Revision}
	s.digest += digest(o.Key, s.reported[o.Key])
}

// state checks that a state was in the view, and that it is not older than the state the handler
// knows. The state may be of the life in which the handler knows the object, or of a later one.
func (c *Checker) state(s *subject, what string, o record.Object, known int64) {
	back := false
	for i := s.lifeOf[o.Key]; i < len(c.timelines); i++ {
		if !c.timelines[i].of(s.resource).had(s.view, o.Key, entry{o.UID, o.Revision}) {
			continue
		}
		// A restore brings back older states, whatever the revisions.
		if o.Revision <= known && i == s.lifeOf[o.Key] {
			back = true
			continue
		}
		s.lifeOf[o.Key] = i
		return
	}
	if back {
		c.violate("%s (%s %+v): %s of %s goes back from %d to %d", s.name, s.resource, s.view, what, o.Key, known, o.Revision)
		return
	}
	c.violate("%s (%s %+v): %s of %s with uid %s at %d, which the view never held", s.name, s.resource, s.view, what, o.Key, o.UID, o.Revision)
}

func (c *Checker) left(s *subject, key, uid string) bool {
	first := s.lifeOf[key]
	if c.timelines[first].of(s.resource).left(s.view, key, uid) {
		return true
	}
	for _, t := range c.timelines[first+1:] {
		if t.of(s.resource).lacks(s.view, key, uid, t.began) {
			return true
		}
	}
	return false
}

// Behind returns the number of informers whose handlers have not yet seen exactly what etcd holds
// now, and the names of at most limit of them.
func (c *Checker) Behind(limit int) (names []string, count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	type place struct {
		resource string
		view     informer.View
	}
	t := c.timelines[len(c.timelines)-1]
	digests := map[place]uint64{}
	for _, s := range c.subjects {
		at := place{s.resource, s.view}
		want, ok := digests[at]
		if !ok {
			want = digestOf(t.of(s.resource).content(s.view, t.through))
			digests[at] = want
		}
		if s.synced && s.digest == want && len(s.pending) == 0 {
			continue
		}
		count++
		if len(names) < limit {
			names = append(names, fmt.Sprintf("%s (%s %+v at %d, %d lines not checked): %s", s.name, s.resource, s.view, s.position, len(s.pending),
				difference(s.reported, t.of(s.resource).content(s.view, t.through))))
		}
	}
	slices.Sort(names)
	return names, count
}

// End compares the content of an informer's store, reported by a Content line, with what etcd holds
// now: objects, UIDs, revisions and the whole content.
func (c *Checker) End(e record.Event, want func(resource, key string) (record.Object, bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subjects[fmt.Sprintf("%s#%d", e.Process, e.Informer)]
	if s == nil {
		c.violate("%s#%d: content of an unknown informer", e.Process, e.Informer)
		return
	}
	t := c.timelines[len(c.timelines)-1]
	content := t.of(s.resource).content(s.view, t.through)
	if len(content) != len(e.Objects) {
		c.violate("%s: its store holds %d objects, etcd %d", s.name, len(e.Objects), len(content))
	}
	for _, o := range e.Objects {
		held, ok := content[o.Key]
		truth, found := want(s.resource, o.Key)
		switch {
		case !ok || !found:
			c.violate("%s: its store holds %s, etcd does not", s.name, o.Key)
		case held != (entry{o.UID, o.Revision}):
			c.violate("%s: its store holds %s as %s at %d, etcd as %v", s.name, o.Key, o.UID, o.Revision, held)
		case truth.Hash != o.Hash:
			c.violate("%s: its store holds %s at %d with another content than etcd", s.name, o.Key, o.Revision)
		}
	}
}

// Violations returns the descriptions of the first 200 violations, and the total number.
func (c *Checker) Violations() (words []string, count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations), c.count
}

// Events returns the number of lines processed.
func (c *Checker) Events() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.events
}

// Informers returns the number of informers that have started.
func (c *Checker) Informers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.subjects)
}
