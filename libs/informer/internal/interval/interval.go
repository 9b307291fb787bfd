// Package interval tells for which revisions the content of a view was, and is, exact.
package interval

import "github.com/garboard/garboard/libs/scheme"

// Stretch is what a view held from one revision to another, both included, without a change in
// between.
type Stretch struct {
	// History names the life of the etcd cluster that the revisions are of; empty if that is
	// not known.
	History string
	// From and Through are the first and the last of the revisions that are known to be so.
	From, Through int64
	// Objects gives the content, in no order. It may be called only by who is told of the
	// stretch, while he is told.
	Objects func() []scheme.Object
}

// Trail follows the stretches of one view and tells those who observe them. Its owner's lock
// guards it.
type Trail struct {
	current   Stretch
	observers map[*func(Stretch)]struct{}
}

// Begin says what the content is, whatever it was.
func (t *Trail) Begin(history string, revision int64, objects func() []scheme.Object) {
	t.current = Stretch{History: history, From: revision, Through: revision, Objects: objects}
}

// Change is called before changes are made that lead to revision; exact says that nothing else
// has happened in between, and so nothing at all before revision.
func (t *Trail) Change(revision int64, exact bool) {
	if exact && revision-1 > t.current.Through {
		t.current.Through = revision - 1
		t.Tell()
	}
	t.current.From, t.current.Through = revision, revision
}

// Extend says that nothing happened up to revision.
func (t *Trail) Extend(revision int64) { t.current.Through = revision }

// Tell tells the observers of the present stretch.
func (t *Trail) Tell() {
	for observe := range t.observers {
		(*observe)(t.current)
	}
}

// Observe has a function told of each stretch, until Forget, beginning with the present one if
// now is true.
func (t *Trail) Observe(observe *func(Stretch), now bool) {
	if t.observers == nil {
		t.observers = map[*func(Stretch)]struct{}{}
	}
	t.observers[observe] = struct{}{}
	if now {
		(*observe)(t.current)
	}
}

// Forget ends Observe.
func (t *Trail) Forget(observe *func(Stretch)) { delete(t.observers, observe) }
