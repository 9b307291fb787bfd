// Package levels orders items by priority.
package levels

import "container/heap"

// Levels is a workqueue.Queue that hands out the highest priority first and, within one priority,
// the item that came first. It is not safe for concurrent use.
type Levels[T comparable] struct {
	// places holds the places of the items with a priority: they wait here, for their time, or for
	// the worker that holds them.
	places map[T]*place[T]
	// heap holds the items that wait here, the next one first.
	heap ranking[T]
	free []*place[T]
	// pushed numbers the items in the order in which they came to their level.
	pushed uint64
	// popped is the priority of the item that Pop returned last.
	popped int
}

// place is the place of one item.
type place[T comparable] struct {
	item     T
	priority int
	number   uint64
	// index is the index in the heap; outside if the item does not wait here.
	index int
}

const (
	outside = -1
	// keptPlaces is how many unused places are kept.
	keptPlaces = 512
)

// New returns an empty order.
func New[T comparable]() *Levels[T] { return &Levels[T]{places: map[T]*place[T]{}} }

// Priority returns the priority of item, 0 if it has none.
func (l *Levels[T]) Priority(item T) int {
	if p := l.places[item]; p != nil {
		return p.priority
	}
	return 0
}

// Ask sets the priority of item, unless the item's current one is higher. An item that rises goes
// to the end of its new level. It returns the priority before and the one now.
func (l *Levels[T]) Ask(item T, priority int) (before, now int) {
	p := l.places[item]
	if p == nil {
		if last := len(l.free) - 1; last >= 0 {
			p, l.free = l.free[last], l.free[:last]
		} else {
			p = &place[T]{}
		}
		*p = place[T]{item: item, priority: priority, index: outside}
		l.places[item] = p
		return priority, priority
	}
	before = p.priority
	if priority > before {
		p.priority = priority
		if p.index != outside {
			l.pushed++
			p.number = l.pushed
			heap.Fix(&l.heap, p.index)
		}
	}
	return before, p.priority
}

// Forget removes the priority of item, which must not wait here.
func (l *Levels[T]) Forget(item T) {
	if p := l.places[item]; p != nil && p.index == outside {
		l.release(p)
	}
}

func (l *Levels[T]) release(p *place[T]) {
	delete(l.places, p.item)
	if len(l.free) < keptPlaces {
		*p = place[T]{} // It must not keep the item alive.
		l.free = append(l.free, p)
	}
}

// Touch does nothing: Ask has already changed everything.
func (l *Levels[T]) Touch(T) {}

// Push adds item at the end of its level; level 0 if it has no priority.
func (l *Levels[T]) Push(item T) {
	p := l.places[item]
	if p == nil {
		l.Ask(item, 0)
		p = l.places[item]
	}
	l.pushed++
	p.number = l.pushed
	heap.Push(&l.heap, p)
}

// Len returns the number of items that wait here.
func (l *Levels[T]) Len() int { return len(l.heap) }

// Pop removes and returns the next item.
func (l *Levels[T]) Pop() T {
	first := l.heap[0]
	heap.Remove(&l.heap, 0)
	item := first.item
	l.popped = first.priority
	l.release(first)
	return item
}

// Popped returns the priority of the item that Pop returned last.
func (l *Levels[T]) Popped() int { return l.popped }

// ranking is the heap.Interface of the waiting places, the next one first.
type ranking[T comparable] []*place[T]

func (r ranking[T]) Len() int { return len(r) }

func (r ranking[T]) Less(i, j int) bool {
	a, b := r[i], r[j]
	if a.priority == b.priority {
		return a.number < b.number
	}
	return a.priority > b.priority
}

func (r ranking[T]) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].index, r[j].index = i, j
}

func (r *ranking[T]) Push(x any) {
	p, _ := x.(*place[T]) // Only Levels pushes.
	p.index = len(*r)
	*r = append(*r, p)
}

func (r *ranking[T]) Pop() any {
	last := len(*r) - 1
	p := (*r)[last]
	(*r)[last] = nil // The array must not keep it alive.
	*r = (*r)[:last]
	p.index = outside
	return p
}
