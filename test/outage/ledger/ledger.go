// Package ledger records what the API acknowledged, and finds lost writes: objects whose content
// contradicts the responses.
package ledger

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Absent is the state of an object that does not exist. Every other state is a positive number,
// which the writer stores in the object.
const Absent = 0

// Ledger records objects. It is safe for concurrent use.
type Ledger struct {
	mu      sync.Mutex
	entries map[string]map[int]bool // name -> possible states
	counts  Counts
}

// Counts has the numbers of recorded writes.
type Counts struct {
	// Acknowledged are writes that the API confirmed, Refused those that it rejected, Unknown those
	// without a definite response.
	Acknowledged, Refused, Unknown int
}

// Plus returns the sum of both.
func (c Counts) Plus(other Counts) Counts {
	return Counts{c.Acknowledged + other.Acknowledged, c.Refused + other.Refused, c.Unknown + other.Unknown}
}

// New creates an empty ledger, in which no object exists.
func New() *Ledger { return &Ledger{entries: map[string]map[int]bool{}} }

func (l *Ledger) states(name string) map[int]bool {
	if l.entries[name] == nil {
		l.entries[name] = map[int]bool{Absent: true}
	}
	return l.entries[name]
}

// Done records an acknowledged write.
func (l *Ledger) Done(name string, state int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Acknowledged++
	l.entries[name] = map[int]bool{state: true}
}

// Unknown records a write whose outcome is unknown. Its object must not be written again, since the
// write may still take effect late.
func (l *Ledger) Unknown(name string, state int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Unknown++
	l.states(name)[state] = true
}

// Refused records a write that was rejected, with what the rejection implies: that the object
// exists, or not. It returns an error if that is impossible.
func (l *Ledger) Refused(name string, exists bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Refused++
	states := l.states(name)
	left := maps.Clone(states)
	maps.DeleteFunc(left, func(state int, _ bool) bool { return (state != Absent) != exists })
	if len(left) == 0 {
		return fmt.Errorf("%s: the API says exists=%v, but it can only be %s", name, exists, show(states))
	}
	l.entries[name] = left
	return nil
}

// Read compares the state returned by a read of etcd's current content with the possible states. It
// returns an error if a write was lost.
func (l *Ledger) Read(name string, state int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if states := l.states(name); !states[state] {
		return fmt.Errorf("%s is %s, but can only be %s", name, show(map[int]bool{state: true}), show(states))
	}
	return nil
}

// Compare compares a list of all objects with everything that was written. Objects that the ledger
// does not have are faults, too.
func (l *Ledger) Compare(list map[string]int) []error {
	l.mu.Lock()
	names := slices.Collect(maps.Keys(l.entries))
	l.mu.Unlock()
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	var faults []error
	for _, name := range slices.Compact(names) {
		if err := l.Read(name, list[name]); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// Counts returns the numbers of writes recorded so far.
func (l *Ledger) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

func show(states map[int]bool) string {
	text := ""
	for _, state := range slices.Sorted(maps.Keys(states)) {
		if text != "" {
			text += " or "
		}
		if state == Absent {
			text += "absent"
		} else {
			text += fmt.Sprintf("at %d", state)
		}
	}
	return text
}
