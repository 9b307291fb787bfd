package changefeed

import (
	"github.com/garboard/garboard/libs/fabric"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// position is the revision up to which everything was emitted.
type position struct {
	view  fabric.View
	at    fabric.Position
	known bool // otherwise nothing was emitted, and every message follows
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

// judge applies the acceptance rule. A further message of the position's own revision may follow.
func (p *position) judge(m *watchv1.Message) fabric.Verdict {
	of := fabric.HistoryOf(m.GetHistory())
	switch {
	case !p.known:
		return fabric.Next
	case of == p.at.History && m.GetRevision() == p.at.Revision && p.told != nil && !p.told[keyOf(m)]:
		return fabric.Next
	}
	return p.at.Judge(of, p.view.Prev(m), m.GetRevision())
}

// step advances to a message that is emitted.
func (p *position) step(m *watchv1.Message) {
	of := fabric.HistoryOf(m.GetHistory())
	if !m.GetOmitted() {
		p.at, p.known, p.told = fabric.Position{History: of, Revision: m.GetRevision()}, true, nil
		return
	}
	if p.told == nil || m.GetRevision() != p.at.Revision || of != p.at.History {
		p.told = map[key]bool{}
	}
	p.at, p.known = fabric.Position{History: of, Revision: m.GetRevision()}, true
	p.told[keyOf(m)] = true
}

// pass advances to a revision whose changes were all emitted.
func (p *position) pass(revision int64) {
	if revision >= p.at.Revision {
		p.at.Revision, p.known, p.told = revision, true, nil
	}
}
