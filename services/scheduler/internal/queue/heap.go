package queue

import (
	"container/heap"
	"slices"
)

// entryHeap is a heap of entries, ordered by less.
type entryHeap struct {
	entries []*entry
	less    func(a, b *entry) bool
}

func (h *entryHeap) len() int { return len(h.entries) }

func (h *entryHeap) add(e *entry) { heap.Push(ordered{h}, e) }

// remove removes an entry if it is there.
func (h *entryHeap) remove(e *entry) {
	if i := slices.Index(h.entries, e); i >= 0 {
		heap.Remove(ordered{h}, i)
	}
}

// fix restores the position of an entry whose order may have changed.
func (h *entryHeap) fix(e *entry) {
	if i := slices.Index(h.entries, e); i >= 0 {
		heap.Fix(ordered{h}, i)
	}
}

// ordered adapts the heap to package container/heap.
type ordered struct{ h *entryHeap }

func (o ordered) Len() int           { return len(o.h.entries) }
func (o ordered) Less(i, j int) bool { return o.h.less(o.h.entries[i], o.h.entries[j]) }
func (o ordered) Swap(i, j int)      { o.h.entries[i], o.h.entries[j] = o.h.entries[j], o.h.entries[i] }

func (o ordered) Push(x any) {
	if e, ok := x.(*entry); ok {
		o.h.entries = append(o.h.entries, e)
	}
}

func (o ordered) Pop() any {
	last := len(o.h.entries) - 1
	e := o.h.entries[last]
	o.h.entries[last] = nil
	o.h.entries = o.h.entries[:last]
	return e
}
