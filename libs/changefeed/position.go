package changefeed

import (
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/history"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// verdict relates a message to a position.
type verdict int

const (
	repeated verdict = iota // emitted already, or of an older history
	follows                 // the next one
	behind                  // something before it is missing
)

// position is the revision up to which everything was emitted.
type position struct {
	view     View
	history  history.ID
	revision int64
	known    bool // otherwise nothing was emitted, and every message follows
	// told holds the emitted messages of the revision itself; nil if all of them were. A revision
	// with several changes arrives as several messages, all without a body: rule P5.
	told map[key]bool
}

type key struct {
	what            watchv1.Type
	namespace, name string
}

// keyOf treats a message that an object left as a deletion, as answers do.
func keyOf(m *watchv1.Message) key {
	what := m.GetType()
	if what == watchv1.Type_TYPE_LEFT {
		what = watchv1.Type_TYPE_DELETED
	}
	return key{what, m.GetNamespace(), m.GetName()}
}

// judge applies the acceptance rule.
func (p *position) judge(m *watchv1.Message) verdict {
	if !p.known {
		return follows
	}
	switch of := fabric.HistoryOf(m.GetHistory()).Compare(p.history); {
	case of < 0:
		return repeated
	case of > 0:
		return behind
	}
	switch {
	case m.GetRevision() < p.revision, m.GetRevision() == p.revision && (p.told == nil || p.told[keyOf(m)]):
		return repeated
	case m.GetRevision() == p.revision || p.view.wire().Prev(m) <= p.revision:
		return follows
	}
	return behind
}

// step advances to a message that is emitted.
func (p *position) step(m *watchv1.Message) {
	of := fabric.HistoryOf(m.GetHistory())
	if !m.GetOmitted() {
		p.history, p.revision, p.known, p.told = of, m.GetRevision(), true, nil
		return
	}
	if p.told == nil || m.GetRevision() != p.revision || of != p.history {
		p.told = map[key]bool{}
	}
	p.history, p.revision, p.known = of, m.GetRevision(), true
	p.told[keyOf(m)] = true
}

// pass advances to a revision whose changes were all emitted.
func (p *position) pass(revision int64) {
	if revision >= p.revision {
		p.revision, p.known, p.told = revision, true, nil
	}
}
