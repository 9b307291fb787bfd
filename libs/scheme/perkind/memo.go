package perkind

import (
	"sync"

	"github.com/garboard/garboard/libs/scheme"
)

// Memo keeps what was made of single kinds while a table has the same kinds. What is asked of one kind after a
// change costs the same for any number of others. It is safe for concurrent use.
type Memo[T any] struct {
	build func(kind *scheme.Kind) *T
	known *scheme.Derived[*sync.Map] // *T by *scheme.Kind
}

// NewMemo returns a Memo of what build makes of a kind. It does not keep a nil.
func NewMemo[T any](table *scheme.Table, build func(kind *scheme.Kind) *T) *Memo[T] {
	return &Memo[T]{build: build, known: scheme.Derive(table, func([]*scheme.Kind) *sync.Map { return &sync.Map{} })}
}

// Of returns what was made of a kind; nil for a nil kind.
func (m *Memo[T]) Of(kind *scheme.Kind) *T {
	known := m.known.Get()
	if found, ok := known.Load(kind); ok {
		one, _ := found.(*T)
		return one
	}
	if kind == nil {
		return nil
	}
	one := m.build(kind)
	if one == nil {
		return nil
	}
	found, _ := known.LoadOrStore(kind, one)
	one, _ = found.(*T)
	return one
}
