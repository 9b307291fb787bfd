package scheme

import (
	"sync"
	"sync/atomic"
)

// Derived is a value that is computed from the kinds of a table, and computed again when they have
// changed. It is safe for concurrent use.
type Derived[T any] struct {
	table *Table
	build func(kinds []*Kind) T

	mu      sync.Mutex // held while the value is computed
	current atomic.Pointer[derivation[T]]
}

type derivation[T any] struct {
	value T
	of    <-chan struct{} // closed when the kinds have changed since
}

// Derive returns a value that build computes from the kinds of a table, when it is first needed. The
// kinds are shared and must not be changed.
func Derive[T any](table *Table, build func(kinds []*Kind) T) *Derived[T] {
	return &Derived[T]{table: table, build: build}
}

// Get returns the value for the kinds that are served now.
func (d *Derived[T]) Get() T {
	if now := d.current.Load(); now.holds() {
		return now.value
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if now := d.current.Load(); now.holds() {
		return now.value
	}
	kinds, changed := d.table.Follow()
	next := &derivation[T]{value: d.build(kinds), of: changed}
	d.current.Store(next)
	return next.value
}

// holds reports whether the kinds are still those of the value.
func (d *derivation[T]) holds() bool {
	if d == nil {
		return false
	}
	select {
	case <-d.of:
		return false
	default:
		return true
	}
}
