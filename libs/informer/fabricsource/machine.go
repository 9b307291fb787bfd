package fabricsource

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// machine holds what is known of one view, and decides what to accept and what to ask. It does no
// I/O, gets the time from its caller, and is used by one goroutine at a time. The rules I1 to I9
// are those of docs/explanation/fabric.md.
type machine struct {
	sink informer.Sink
	// whole means that the view is the whole resource: every change of the resource is a change of
	// the view.
	whole  bool
	random func(time.Duration) time.Duration
	count  counters

	// at is the position of which the sink holds the exact content. It means nothing until synced is
	// set.
	at     fabric.Position
	synced bool
	index  index
	buffer buffer

	// heard is the highest revision of any change known in the view, last the highest head of the
	// whole resource; both belong to heardHistory. required is the revision set by Require. rebuild
	// asks for a whole view at any position.
	heardHistory fabric.History
	// spoken is when the newest history was last heard of. olderSince is since when all answers
	// that are as new as etcd belong to older histories.
	spoken, olderSince time.Time
	heard, last        int64
	required           int64
	rebuild            bool

	// refreshes counts the requests for content as new as etcd; refreshed is the number of the last
	// one that is satisfied. unconfirmed means that the content was resumed and no apiserver has
	// confirmed yet that it still holds.
	refreshes, refreshed uint64
	unconfirmed          bool
	unserved             bool // An apiserver answered that it does not serve the resource.

	schedule
}

// counters are the metrics of a machine.
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

// hear records that something happened at revision. The revision belongs to one history (I6).
func (m *machine) hear(h fabric.History, revision, last int64) {
	switch h.Compare(m.heardHistory) {
	case 1:
		m.heardHistory, m.heard, m.last = h, revision, last
	case 0:
		m.heard, m.last = max(m.heard, revision), max(m.last, last)
	}
}

// newest returns the highest known history: all others are over.
func (m *machine) newest() fabric.History {
	if m.heardHistory.Compare(m.at.History) > 0 {
		return m.heardHistory
	}
	return m.at.History
}

// known reports to the sink that etcd is ahead of the content.
func (m *machine) known(h fabric.History, revision int64) {
	if h == m.at.History {
		m.sink.Known(revision)
	}
}

// lacks reports whether an ask could bring anything that is needed now.
func (m *machine) lacks() bool { return m.required > m.at.Revision || m.misses() }

// misses is lacks without the revision set by Require.
func (m *machine) misses() bool {
	if !m.synced || m.rebuild || m.fresh {
		return true
	}
	switch m.heardHistory.Compare(m.at.History) {
	case 1:
		return true
	case 0:
		return m.heard > m.at.Revision || m.whole && m.last > m.at.Revision
	}
	return false
}

// noteHistory records that a history was heard of. fresh means that what was heard is as new as
// etcd. If only older histories are heard of for long, the newest belonged to an etcd that is gone
// and whose clock was ahead. The machine then abandons everything it knows (I6).
func (m *machine) noteHistory(now time.Time, h fabric.History, fresh bool) {
	switch {
	case h.Compare(m.newest()) >= 0:
		m.spoken, m.olderSince = now, time.Time{}
	case !fresh:
	case m.olderSince.IsZero():
		m.olderSince = now
	case now.Sub(m.olderSince) >= fabric.HistoryGrace:
		m.abandon(now)
	}
}

// abandon drops everything that is known, including which histories are over.
func (m *machine) abandon(now time.Time) {
	m.heardHistory, m.heard, m.last, m.required = fabric.History{}, 0, 0, 0
	m.at, m.synced, m.unconfirmed = fabric.Position{}, false, false
	m.index, m.buffer = newIndex(0), buffer{limit: m.buffer.limit}
	m.spoken, m.olderSince = now, time.Time{}
}

// change handles a change message of the view, complete or not (I2).
func (m *machine) change(now time.Time, s statement, omitted bool) {
	m.noteHistory(now, s.History, false)
	if m.synced && (s.History.Compare(m.at.History) < 0 || s.History == m.at.History && s.Revision <= m.at.Revision) {
		return
	}
	m.hear(s.History, s.Revision, 0)
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
		m.known(s.History, s.Revision)
		m.plan(now, m.jitter())
	}
}

// progress handles a progress message: nothing happened in (last, seen]. start is the start of the
// publisher's window (I3).
func (m *machine) progress(now time.Time, h fabric.History, last, seen, start int64) {
	m.noteHistory(now, h, false)
	if m.unserved {
		m.unserved = false // I9: it is served again, or elsewhere.
		m.disturbed(now)
	}
	if m.synced && h.Compare(m.at.History) < 0 {
		return
	}
	m.alive(now)
	m.hear(h, 0, last)
	if !m.synced {
		return
	}
	if h != m.at.History {
		m.plan(now, m.jitter())
		return
	}
	switch {
	case last <= m.at.Revision:
		if m.accept(statement{History: h, Prev: last, Revision: seen}) {
			m.drain()
		}
	case m.whole:
		m.known(h, last)
		m.plan(now, m.jitter())
	default:
		m.planQuiet(now, start)
	}
}

// accept applies a statement if it is the next one, by the one rule.
func (m *machine) accept(s statement) bool {
	if !m.synced || m.at.Judge(s.History, s.Prev, s.Revision) != fabric.Next {
		return false
	}
	applied := make([]informer.Change, 0, len(s.Changes))
	for _, c := range s.Changes {
		if c.Revision <= m.at.Revision {
			continue
		}
		if c.Deleted {
			uid, known := m.index.drop(c.Namespace, c.Name)
			switch {
			case !known:
				c.Object = nil // It came and went between two statements. The sink still gets the change.
			case uid != c.UID:
				c.UID, c.Object = uid, nil
			}
		} else {
			m.index.put(c.Namespace, c.Name, c.UID, c.Revision)
		}
		applied = append(applied, c)
	}
	m.at.Revision = s.Revision
	m.sink.Apply(applied, s.Revision)
	return true
}

// drain applies what it can from the buffer and drops what has become useless.
func (m *machine) drain() {
	m.buffer.offer(func(s statement) bool {
		if m.accept(s) {
			return false
		}
		switch s.History.Compare(m.at.History) {
		case -1:
			return false
		case 0:
			return s.Revision > m.at.Revision
		}
		return true
	})
}

// replace applies a whole view. forced means that the view was requested for any position, so a
// view at the position itself is accepted too (I8).
func (m *machine) replace(h fabric.History, objects []informer.Object, revision int64, forced bool) bool {
	if m.synced {
		switch h.Compare(m.at.History) {
		case -1:
			return false
		case 0:
			if revision < m.at.Revision || revision == m.at.Revision && !forced && !m.rebuild {
				return false
			}
		case 1:
			// Content read over HTTP before any history was known belongs to this one.
			if m.at.History == (fabric.History{}) && revision < m.at.Revision {
				return false
			}
		}
	}
	if !m.synced && h != (fabric.History{}) && h.Compare(m.heardHistory) < 0 {
		return false // That history is over, and the content known before it was forgotten may be newer.
	}
	if m.synced && h != m.at.History && m.at.History != (fabric.History{}) {
		m.required = 0 // It was a revision of another life of etcd.
	}
	if m.heardHistory.Compare(h) < 0 {
		m.heardHistory, m.heard, m.last = h, 0, 0
	}
	m.index = newIndex(len(objects))
	for _, obj := range objects {
		m.index.put(obj.GetNamespace(), obj.GetName(), string(obj.GetUID()), revisionOf(obj))
	}
	m.at, m.synced, m.rebuild, m.unconfirmed = fabric.Position{History: h, Revision: revision}, true, false, false
	m.count.wholeView()
	m.sink.Replace(m.at, objects)
	m.drain()
	return true
}

// revisionOf returns an object's own revision; 0 if it has none, which no digest will match.
func revisionOf(obj informer.Object) int64 {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}

// changes applies an answer "since prev", or what a watch over HTTP reported.
func (m *machine) changes(s statement) bool {
	for _, c := range s.Changes {
		if c.Revision > s.Revision {
			m.count.discarded("impossible answer")
			return false
		}
	}
	slices.SortStableFunc(s.Changes, func(a, b informer.Change) int { return cmp.Compare(a.Revision, b.Revision) })
	if !m.accept(s) {
		return false
	}
	m.drain()
	return true
}

// require asks for content at or above revision (I7).
func (m *machine) require(now time.Time, revision int64) {
	if revision > m.required {
		m.required, m.refusals = revision, 0
	}
	if m.synced && m.required > m.at.Revision {
		m.plan(now, m.jitter())
	}
}
