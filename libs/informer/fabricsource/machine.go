package fabricsource

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/garboard/garboard/libs/informer"
)

// machine holds what is known of one view, and decides what is accepted and what is asked. It
// does no I/O, is told the time, and is used by one goroutine at a time. The rules I1 to I8
// are those of docs/explanation/fabric.md.
type machine struct {
	sink informer.Sink
	// whole says that the view is the whole resource, whose every change is its own.
	whole  bool
	random func(time.Duration) time.Duration
	count  counters

	// position is the revision of which the sink holds the exact content, in history; it
	// means nothing before synced.
	history  history
	position int64
	synced   bool
	index    index
	buffer   buffer

	// heard is the highest revision of a change in the view that was heard of, last the
	// highest head of the whole resource; both in heardHistory. required is what Require
	// asked for. rebuild asks for a whole view whatever the position is.
	heardHistory history
	// spoken is when the last word of the newest history came. olderSince is since when answers
	// that are as new as etcd are all of older ones.
	spoken, olderSince time.Time
	heard, last        int64
	required           int64
	rebuild            bool

	// refreshes counts those who asked for content as new as etcd, refreshed up to which of
	// them have it. unconfirmed says that the content is an old one that was resumed, and that
	// nobody has said yet whether it still holds.
	refreshes, refreshed uint64
	unconfirmed          bool

	schedule
}

// counters are what a machine counts.
type counters interface {
	asked()
	gap()
	discarded(why string)
	wholeView()
	overflow()
}

func newMachine(sink informer.Sink, whole bool, random func(time.Duration) time.Duration, count counters) *machine {
	return &machine{
		sink: sink, whole: whole, random: random, count: count, index: newIndex(0),
		schedule: schedule{limit: unansweredLimit, calm: returnAfter},
	}
}

// hear notes that something happened at revision. It belongs to one history: I6.
func (m *machine) hear(h history, revision, last int64) {
	switch h.compare(m.heardHistory) {
	case 1:
		m.heardHistory, m.heard, m.last = h, revision, last
	case 0:
		m.heard, m.last = max(m.heard, revision), max(m.last, last)
	}
}

// newest is the highest history that was heard of: all others are over.
func (m *machine) newest() history {
	if m.heardHistory.compare(m.history) > 0 {
		return m.heardHistory
	}
	return m.history
}

// known tells the sink, if it wants to hear, how far etcd is that the content is not yet.
func (m *machine) known(h history, revision int64) {
	if notices, ok := m.sink.(informer.Notices); ok && h == m.history {
		notices.Known(revision)
	}
}

// lacks says whether an ask could bring anything that is wanted now.
func (m *machine) lacks() bool { return m.required > m.position || m.misses() }

// misses is lacks but for what Require asked for.
func (m *machine) misses() bool {
	if !m.synced || m.rebuild || m.fresh {
		return true
	}
	switch m.heardHistory.compare(m.history) {
	case 1:
		return true
	case 0:
		return m.heard > m.position || m.whole && m.last > m.position
	}
	return false
}

// told notes that there is a word of a history; fresh says that it is as new as etcd. If for long
// there are only words of older ones, the newest was of an etcd that is gone, whose clock was ahead:
// all that is known is given up. I6.
func (m *machine) told(now time.Time, h history, fresh bool) {
	switch {
	case h.compare(m.newest()) >= 0:
		m.spoken, m.olderSince = now, time.Time{}
	case !fresh:
	case m.olderSince.IsZero():
		m.olderSince = now
	case now.Sub(m.olderSince) >= outlived:
		m.abandon(now)
	}
}

// abandon gives up all that is known, and all that is over because of it.
func (m *machine) abandon(now time.Time) {
	m.heardHistory, m.heard, m.last, m.required = history{}, 0, 0, 0
	m.history, m.position, m.synced, m.unconfirmed = history{}, 0, false, false
	m.index, m.buffer = newIndex(0), buffer{limit: m.buffer.limit}
	m.spoken, m.olderSince = now, time.Time{}
}

// change takes a change message of the view, complete or not: I2.
func (m *machine) change(now time.Time, s statement, omitted bool) {
	m.told(now, s.history, false)
	if m.synced && (s.history.compare(m.history) < 0 || s.history == m.history && s.revision <= m.position) {
		return
	}
	m.hear(s.history, s.revision, 0)
	if !omitted {
		if m.accept(s) {
			m.drain()
			return
		}
		if !m.buffer.add(s) {
			m.count.overflow()
		}
	}
	if m.synced {
		m.count.gap()
		m.known(s.history, s.revision)
		m.plan(now, m.jitter())
	}
}

// progress takes a progress message: nothing happened in (last, seen]. start is the start of the
// publisher's window. I3.
func (m *machine) progress(now time.Time, h history, last, seen, start int64) {
	m.told(now, h, false)
	if m.synced && h.compare(m.history) < 0 {
		return
	}
	m.alive(now)
	m.hear(h, 0, last)
	if !m.synced {
		return
	}
	if h != m.history {
		m.plan(now, m.jitter())
		return
	}
	switch {
	case last <= m.position:
		if m.accept(statement{history: h, prev: last, revision: seen}) {
			m.drain()
		}
	case m.whole:
		m.known(h, last)
		m.plan(now, m.jitter())
	default:
		m.planQuiet(now, start)
	}
}

// accept applies a statement if it is the next: the one rule.
func (m *machine) accept(s statement) bool {
	if !m.synced || s.history != m.history || s.prev > m.position || s.revision <= m.position {
		return false
	}
	applied := make([]informer.Change, 0, len(s.changes))
	for _, c := range s.changes {
		if c.Revision <= m.position {
			continue
		}
		if c.Deleted {
			uid, known := m.index.drop(c.Namespace, c.Name)
			switch {
			case !known:
				c.Object = nil // It came and went between two statements, which is not nothing.
			case uid != c.UID:
				c.UID, c.Object = uid, nil
			}
		} else {
			m.index.put(c.Namespace, c.Name, c.UID, c.Revision)
		}
		applied = append(applied, c)
	}
	m.position = s.revision
	m.sink.Apply(applied, s.revision)
	return true
}

// drain applies what the buffer holds and drops what is of no use any more.
func (m *machine) drain() {
	m.buffer.offer(func(s statement) bool {
		if m.accept(s) {
			return false
		}
		switch s.history.compare(m.history) {
		case -1:
			return false
		case 0:
			return s.revision > m.position
		}
		return true
	})
}

// replace takes a whole view. forced says that it was asked for whatever the position is, so
// that one at the position itself is accepted too: I8.
func (m *machine) replace(h history, objects []informer.Object, revision int64, forced bool) bool {
	if m.synced {
		switch h.compare(m.history) {
		case -1:
			return false
		case 0:
			if revision < m.position || revision == m.position && !forced && !m.rebuild {
				return false
			}
		case 1:
			// What was read over HTTP before a history was known is of this one.
			if m.history == (history{}) && revision < m.position {
				return false
			}
		}
	}
	if !m.synced && h != (history{}) && h.compare(m.heardHistory) < 0 {
		return false // It is over, and what was known before it was forgotten may be newer.
	}
	if m.synced && h != m.history && m.history != (history{}) {
		m.required = 0 // It was of another life of etcd.
	}
	if m.heardHistory.compare(h) < 0 {
		m.heardHistory, m.heard, m.last = h, 0, 0
	}
	m.index = newIndex(len(objects))
	for _, obj := range objects {
		m.index.put(obj.GetNamespace(), obj.GetName(), string(obj.GetUID()), revisionOf(obj))
	}
	m.history, m.position, m.synced, m.rebuild, m.unconfirmed = h, revision, true, false, false
	m.count.wholeView()
	if continuity, ok := m.sink.(informer.Continuity); ok {
		continuity.History(h.String())
	}
	m.sink.Replace(objects, revision)
	m.drain()
	return true
}

// revisionOf is an object's own revision; 0 if it has none, which no digest will match.
func revisionOf(obj informer.Object) int64 {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// changes takes an answer "since prev", or what a watch over HTTP said.
func (m *machine) changes(s statement) bool {
	for _, c := range s.changes {
		if c.Revision > s.revision {
			m.count.discarded("impossible answer")
			return false
		}
	}
	slices.SortStableFunc(s.changes, func(a, b informer.Change) int { return cmp.Compare(a.Revision, b.Revision) })
	if !m.accept(s) {
		return false
	}
	m.drain()
	return true
}

// require asks for content at or above revision: I7.
func (m *machine) require(now time.Time, revision int64) {
	if revision > m.required {
		m.required, m.refusals = revision, 0
	}
	if m.synced && m.required > m.position {
		m.plan(now, m.jitter())
	}
}
