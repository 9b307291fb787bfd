// Package interval tracks for which revisions the content of a view was, and is, exact.
package interval

import (
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
)

// Interval is an interval of revisions during which a view held the same content.
type Interval struct {
	// History names the life of the etcd cluster to which the revisions belong; zero if that is
	// not known.
	History fabric.History
	// From and Through are the first and the last revision of the interval, both included, as far
	// as is known.
	From, Through int64
	// Objects returns the content, in no order. Only an observer may call it, and only while it is
	// being notified.
	Objects func() []scheme.Object
}

// Trail tracks the intervals of one view and notifies their observers. Its owner's lock guards it.
type Trail struct {
	current   Interval
	observers map[*func(Interval)]struct{}
}

// Begin starts an interval with new content, whatever the content was before.
func (t *Trail) Begin(at fabric.Position, objects func() []scheme.Object) {
	t.current = Interval{History: at.History, From: at.Revision, Through: at.Revision, Objects: objects}
}

// Change is called before changes are applied that lead to revision. exact means that nothing else
// happened in between, and so nothing at all before revision.
func (t *Trail) Change(revision int64, exact bool) {
	if exact && revision-1 > t.current.Through {
		t.current.Through = revision - 1
		t.Notify()
	}
	t.current.From, t.current.Through = revision, revision
}

// Extend records that nothing happened up to revision.
func (t *Trail) Extend(revision int64) { t.current.Through = revision }

// Notify passes the current interval to the observers.
func (t *Trail) Notify() {
	for observe := range t.observers {
		(*observe)(t.current)
	}
}

// Observe registers a function for each interval, until Forget. If now is true, the function is
// called with the current interval at once.
func (t *Trail) Observe(observe *func(Interval), now bool) {
	if t.observers == nil {
		t.observers = map[*func(Interval)]struct{}{}
	}
	t.observers[observe] = struct{}{}
	if now {
		(*observe)(t.current)
	}
}

// Forget ends Observe.
func (t *Trail) Forget(observe *func(Interval)) { delete(t.observers, observe) }
