// Package ledger keeps what the API acknowledged, and finds writes that it lost: an object whose
// content is none that it can have after what was answered.
package ledger

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Absent is the state of an object that does not exist. Every other state is a positive number,
// which the writer puts into the object.
const Absent = 0

// Ledger is a book of objects. It may be used from any goroutine.
type Ledger struct {
	mu      sync.Mutex
	entries map[string]map[int]bool // name -> the states that it can be in
	counts  Counts
}

// Counts say what the ledger was told.
type Counts struct {
	// Acknowledged are writes that the API said are done, Refused those that it said are not,
	// Unknown those that nobody answered.
	Acknowledged, Refused, Unknown int
}

// Plus is the sum of both.
func (c Counts) Plus(other Counts) Counts {
	return Counts{c.Acknowledged + other.Acknowledged, c.Refused + other.Refused, c.Unknown + other.Unknown}
}

// New makes an empty ledger: no object exists.
func New() *Ledger { return &Ledger{entries: map[string]map[int]bool{}} }

func (l *Ledger) states(name string) map[int]bool {
	if l.entries[name] == nil {
		l.entries[name] = map[int]bool{Absent: true}
	}
	return l.entries[name]
}

// Done notes an acknowledged write.
func (l *Ledger) Done(name string, state int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Acknowledged++
	l.entries[name] = map[int]bool{state: true}
}

// Unknown notes a write of which nobody knows whether it was done. Its object must not be
// written again: the write may come late.
func (l *Ledger) Unknown(name string, state int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Unknown++
	l.states(name)[state] = true
}

// Refused notes a write that was not done, with what the refusal says of the object: that it
// exists, or not. An error says that it cannot be so.
func (l *Ledger) Refused(name string, exists bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Refused++
	states := l.states(name)
	left := maps.Clone(states)
	maps.DeleteFunc(left, func(state int, _ bool) bool { return (state != Absent) != exists })
	if len(left) == 0 {
		return fmt.Errorf("%s: the API says exists=%v, and it can only be in %s", name, exists, show(states))
	}
	l.entries[name] = left
	return nil
}

// Read compares what a read of etcd's present state gave with what can be. An error tells of a
// lost write.
func (l *Ledger) Read(name string, state int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if states := l.states(name); !states[state] {
		return fmt.Errorf("%s is %s, and can only be %s", name, show(map[int]bool{state: true}), show(states))
	}
	return nil
}

// Compare compares a list of all objects with all that was written. The objects of the list
// that the ledger does not know are faults too.
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

// Counts says what the ledger was told until now.
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
