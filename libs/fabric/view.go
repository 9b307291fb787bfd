// Package fabric decodes the messages and answers of the watch fabric about a view of a resource.
// It holds the checks that every reader makes, so that no reader accepts impossible content,
// whichever process sent it. docs/explanation/fabric.md has the rules.
package fabric

import (
	"math"
	"time"

	"github.com/garboard/garboard/libs/history"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// HistoryGrace is how long a reader may hear only of older histories than its own before it drops
// what it knows. It is longer than clocks differ, and than a server takes to learn of a newer
// history.
const HistoryGrace = time.Minute

// Always is the prev of a statement about everything: minus infinity.
const Always = math.MinInt64

// View is a resource, or a part of it: the objects of a scope, of a namespace, or with a name.
type View struct{ Group, Resource, Scope, Namespace, Name string }

// Whole reports whether the view is the whole resource.
func (v View) Whole() bool { return v.Scope == "" && v.Namespace == "" && v.Name == "" }

// HistoryOf returns the history that a message names; the zero ID if it names none.
func HistoryOf(h *watchv1.History) history.ID {
	return history.ID{Created: h.GetCreated(), Nonce: h.GetNonce()}
}

// WireHistory returns a history in the form of messages; nil for the zero ID.
func WireHistory(id history.ID) *watchv1.History {
	if id == (history.ID{}) {
		return nil
	}
	return &watchv1.History{Created: id.Created, Nonce: id.Nonce}
}
