package history

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/test/chaos/record"
)

// kept bounds the number of violations whose descriptions are kept.
const kept = 200

// Checker replays the histories of informers against etcd's. It is safe for concurrent use.
type Checker struct {
	mu         sync.Mutex
	timelines  []*Timeline
	subjects   map[string]*subject
	violations []string
	count      int
	events     int
	// round counts the requests for etcd's current revision.
	round int
}

// subject is the state of one informer.
type subject struct {
	name     string
	resource string
	view     informer.View
	// lives are the timelines to which all statements so far may belong, in order.
	lives    []int
	synced   bool
	position int64
	// content is the result of the statements; reported is the result of the handler's calls.
	content, reported map[string]entry
	digest            uint64 // of reported
	// gone has the last revision of objects that the handler saw deleted.
	gone map[string]int64
	// lifeOf has the life from which the handler knows, or knew, an object.
	lifeOf  map[string]int
	pending []waiting
}

// waiting is a line that cannot be checked before etcd's record reaches its revision.
type waiting struct {
	event record.Event
	round int
}

// NewChecker creates a checker, with the first life of etcd started.
func NewChecker() *Checker {
	return &Checker{timelines: []*Timeline{newTimeline()}, subjects: map[string]*subject{}}
}

// Record adds changes of etcd in the order of revisions; there are no others up to through. asked
// is the result of the Asking call before etcd was asked for through, or 0 if etcd was not asked.
func (c *Checker) Record(changes []Change, through int64, asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.timelines[len(c.timelines)-1]
	for _, change := range changes {
		t.add(change)
	}
	t.through = max(t.through, through)
	for _, s := range c.subjects {
		c.advance(s, asked)
	}
}

// Asking must be called before etcd is asked for its current revision.
func (c *Checker) Asking() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.round++
	return c.round
}

// NewLife records that etcd's life ended and another begins, as after a restore. raised means that
// the new revisions are above all earlier ones.
func (c *Checker) NewLife(raised bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timelines[len(c.timelines)-1].closed = true
	t := newTimeline()
	t.raised = raised
	c.timelines = append(c.timelines, t)
}

// Restored records the revision at which the current life began.
func (c *Checker) Restored(revision int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timelines[len(c.timelines)-1].began = revision
}

// Through returns the revision up to which the record of the current life is complete.
func (c *Checker) Through() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.timelines[len(c.timelines)-1].through
}

// Handle processes an event that an informer reported.
func (c *Checker) Handle(e record.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events++
	name := fmt.Sprintf("%s#%d", e.Process, e.Informer)
	if e.What == record.Begin {
		c.subjects[name] = &subject{
			name: name, resource: e.Resource, view: *e.View, content: map[string]entry{}, reported: map[string]entry{},
			gone: map[string]int64{}, lifeOf: map[string]int{},
		}
		return
	}
	s := c.subjects[name]
	if s == nil {
		c.violate("%s: %s before it began", name, e.What)
		return
	}
	s.pending = append(s.pending, waiting{e, c.round})
	c.advance(s, 0)
}

// Forget drops the informers of a process that has ended.
func (c *Checker) Forget(process string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.subjects {
		if strings.HasPrefix(name, process+"#") {
			delete(c.subjects, name)
		}
	}
}

// advance checks all lines that can be checked.
func (c *Checker) advance(s *subject, asked int) {
	for len(s.pending) > 0 {
		w := s.pending[0]
		last := c.timelines[len(c.timelines)-1]
		// A revision beyond etcd's, asked for after the line arrived, belongs to another life.
		if (w.event.What == record.Replace || w.event.What == record.Apply) && w.event.Revision > last.through && asked <= w.round {
			return
		}
		s.pending = s.pending[1:]
		switch w.event.What {
		case record.Replace, record.Apply:
			c.statement(s, w.event)
		default:
			c.call(s, w.event)
		}
	}
}

// statement checks that the content after a statement is exactly etcd's.
func (c *Checker) statement(s *subject, e record.Event) {
	next := map[string]entry{}
	touched := map[string]bool{}
	if e.What == record.Apply {
		if !s.synced {
			c.violate("%s: changes up to %d before there was a whole view", s.name, e.Revision)
			return
		}
		next = s.content
	}
	for _, o := range e.Objects {
		touched[o.Key] = true
		if o.Deleted {
			delete(next, o.Key)
		} else {
			next[o.Key] = entry{o.UID, o.Revision}
		}
	}
	s.content = next
	lives, reasons := c.livesOf(s, e, touched)
	if len(lives) == 0 {
		c.violate("%s (%s %+v): after %s to %d from %d, the content matches no life of etcd: %s", s.name, s.resource, s.view, e.What, e.Revision, s.position, strings.Join(reasons, "; "))
		// Start afresh, so that a fault is reported only once.
		lives = []int{len(c.timelines) - 1}
		s.content = c.timelines[lives[0]].of(s.resource).content(s.view, e.Revision)
	}
	s.lives, s.position, s.synced = lives, e.Revision, true
}

// livesOf returns the lives of etcd in which the content is exact at the statement's revision, and
// the reasons why others do not match.
func (c *Checker) livesOf(s *subject, e record.Event, touched map[string]bool) (lives []int, reasons []string) {
	first := 0
	if s.synced {
		first = s.lives[0]
	}
	for i := first; i < len(c.timelines); i++ {
		t := c.timelines[i]
		known := slices.Contains(s.lives, i)
		switch {
		case e.What == record.Apply && !known && !t.raised:
			continue // only a whole view leads to a life whose revisions have another meaning
		case e.What == record.Apply && e.Revision <= s.position:
			reasons = append(reasons, fmt.Sprintf("life %d: it is not above its position", i))
			continue
		// The informer may have been in this life all along, or may have arrived just now.
		case s.synced && (t.raised || known && i == s.lives[0]) && e.Revision < s.position:
			reasons = append(reasons, fmt.Sprintf("life %d: it goes back", i))
			continue
		case !t.closed && e.Revision > t.through:
			reasons = append(reasons, fmt.Sprintf("life %d: etcd is at %d", i, t.through))
			continue
		}
		r := t.of(s.resource)
		var differs string
		if e.What == record.Replace || !known {
			differs = difference(s.content, r.content(s.view, e.Revision))
		} else {
			differs = c.differsIn(s, r, e.Revision, touched)
		}
		if differs != "" {
			reasons = append(reasons, fmt.Sprintf("life %d: %s", i, differs))
			continue
		}
		lives = append(lives, i)
	}
	return lives, reasons
}

// differsIn compares the keys that may have changed since the last statement.
func (c *Checker) differsIn(s *subject, r *resource, revision int64, touched map[string]bool) string {
	keys := r.changed(s.position, revision)
	for key := range touched {
		keys = append(keys, key)
	}
	for _, key := range keys {
		want, wanted := r.entryAt(s.view, key, revision)
		have, has := s.content[key]
		if wanted != has || want != have {
			return fmt.Sprintf("%s is %v, in etcd %v", key, have, want)
		}
	}
	return ""
}

func difference(have, want map[string]entry) string {
	var found []string
	for key, e := range want {
		if have[key] != e {
			found = append(found, fmt.Sprintf("%s is %v, in etcd %v", key, have[key], e))
		}
	}
	for key, e := range have {
		if _, ok := want[key]; !ok {
			found = append(found, fmt.Sprintf("%s is %v, in etcd not there", key, e))
		}
	}
	slices.Sort(found)
	return strings.Join(found[:min(len(found), 5)], ", ")
}

func (c *Checker) violate(format string, args ...any) {
	c.count++
	if len(c.violations) < kept {
		c.violations = append(c.violations, fmt.Sprintf(format, args...))
	}
}
