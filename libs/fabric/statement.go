// Package fabric holds the nouns of the watch fabric, as etcd's side and the informers' side use
// them: histories, views, positions and statements, and the splitting of answers into chunks and
// their assembly. It holds the checks that every reader makes, so that no reader accepts impossible
// content, whichever process sent it. docs/explanation/fabric.md has the rules.
package fabric

import "math"

// Always is the prev of a statement about everything: minus infinity.
const Always = math.MinInt64

// Position is how far a reader of a view has come: it knows what the view held at a revision of a
// history.
type Position struct {
	History  History
	Revision int64
}

// Statement states that in a view the changes in (Prev, Revision] of a history are exactly Changes,
// of each object the newest. It stays true forever, whichever process repeats it and however often.
// C is the form of a change.
type Statement[C any] struct {
	History History
	// Prev is where the changes begin; Always for a statement about everything.
	Prev, Revision int64
	// Whole means that Changes are the objects of the view at Revision. Prev is then Always.
	Whole   bool
	Changes []C
	// Size is the approximate size of the statement in messages, in bytes; 0 if it was in none.
	Size int
}

// Verdict relates a statement to a position.
type Verdict int

const (
	// Known statements say nothing that is not known at the position, or belong to an older history.
	Known Verdict = iota
	// Next statements lead on from the position.
	Next
	// Beyond means that something before the statement is missing, or that it belongs to a newer
	// history.
	Beyond
)

// Judge applies the rule of acceptance to a statement about (prev, revision] of a history: it is
// next if the position is of the same history, not before prev, and before revision.
func (p Position) Judge(of History, prev, revision int64) Verdict {
	switch of.Compare(p.History) {
	case -1:
		return Known
	case 1:
		return Beyond
	}
	switch {
	case revision <= p.Revision:
		return Known
	case prev <= p.Revision:
		return Next
	}
	return Beyond
}
