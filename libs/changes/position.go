package changes

import (
	"cmp"
	"math"

	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// unscoped is the scope of what has none.
const unscoped = "~"

type history struct {
	created int64
	nonce   uint64
}

func historyOf(h *watchv1.History) history { return history{h.GetCreated(), h.GetNonce()} }

func (h history) wire() *watchv1.History {
	if h == (history{}) {
		return nil
	}
	return &watchv1.History{Created: h.created, Nonce: h.nonce}
}

func (h history) compare(other history) int {
	return cmp.Or(cmp.Compare(h.created, other.created), cmp.Compare(h.nonce, other.nonce))
}

// verdict is what a message is to a position.
type verdict int

const (
	repeated verdict = iota // told already, or of an older history
	follows                 // the next one
	behind                  // something before it is missing
)

// position is up to where everything was told.
type position struct {
	view     View
	history  history
	revision int64
	known    bool // else nothing was told, and everything follows
	// told are the messages of the revision itself that were told; nil if all of it was. A
	// revision with more than one change comes as several messages, all without a body: P5.
	told map[key]bool
}

type key struct {
	what            watchv1.Type
	namespace, name string
}

// keyOf takes what left for what was deleted, as answers do.
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
	switch of := historyOf(m.GetHistory()).compare(p.history); {
	case of < 0:
		return repeated
	case of > 0:
		return behind
	}
	switch {
	case m.GetRevision() < p.revision, m.GetRevision() == p.revision && (p.told == nil || p.told[keyOf(m)]):
		return repeated
	case m.GetRevision() == p.revision || p.view.prev(m) <= p.revision:
		return follows
	}
	return behind
}

// step goes on to a message that is told.
func (p *position) step(m *watchv1.Message) {
	of := historyOf(m.GetHistory())
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

// pass goes on to a revision of which everything was told.
func (p *position) pass(revision int64) {
	if revision >= p.revision {
		p.revision, p.known, p.told = revision, true, nil
	}
}

// prev is the revision of the last change before m in the view, as far as m tells.
func (v View) prev(m *watchv1.Message) int64 {
	switch {
	case m.GetType() == watchv1.Type_TYPE_PROGRESS:
		return m.GetPrevAll()
	case v.Name != "":
		return math.MinInt64 // every message is the whole state
	case m.GetType() == watchv1.Type_TYPE_LEFT:
		return m.GetPrevScope()
	case v.Scope != "" && v.Namespace != "":
		return min(m.GetPrevScope(), m.GetPrevNamespace())
	case v.Scope != "":
		return m.GetPrevScope()
	case v.Namespace != "":
		return m.GetPrevNamespace()
	}
	return m.GetPrevAll()
}

// covers says whether a message is a statement about the view. What left a scope is one only
// for that scope.
func (v View) covers(m *watchv1.Message) bool {
	switch m.GetType() {
	case watchv1.Type_TYPE_PUT, watchv1.Type_TYPE_DELETED:
	case watchv1.Type_TYPE_LEFT:
		if v.Scope == "" {
			return false
		}
	case watchv1.Type_TYPE_UNSPECIFIED, watchv1.Type_TYPE_PROGRESS, watchv1.Type_TYPE_GAP:
		return false
	default:
		return false
	}
	return m.GetGroup() == v.Group && m.GetResource() == v.Resource &&
		(v.Namespace == "" || m.GetNamespace() == v.Namespace) && (v.Name == "" || m.GetName() == v.Name) &&
		(v.Scope == "" || cmp.Or(m.GetScope(), unscoped) == v.Scope)
}
