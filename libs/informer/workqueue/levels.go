package workqueue

import "container/heap"

// levels is a Queue that hands out the highest priority first, and of one priority what came
// first.
type levels[T comparable] struct {
	// places are those of the items that have a priority: they wait here, or for their time, or
	// for the worker that holds them.
	places map[T]*place[T]
	// heap holds the items that wait here, the next one first.
	heap ranking[T]
	free []*place[T]
	// pushed numbers the items in the order in which they came to their level.
	pushed uint64
	// popped is the priority of the item that Pop gave last.
	popped int
}

// place is that of one item.
type place[T comparable] struct {
	item     T
	priority int
	number   uint64
	// index is that in the heap, outside when the item does not wait here.
	index int
}

const (
	outside = -1
	// keptPlaces is how many unused places are kept.
	keptPlaces = 512
)

func newLevels[T comparable]() *levels[T] { return &levels[T]{places: map[T]*place[T]{}} }

// priority is that of item, 0 if it has none.
func (l *levels[T]) priority(item T) int {
	if p := l.places[item]; p != nil {
		return p.priority
	}
	return 0
}

// ask gives item a priority, or keeps the one that it has if that is not lower. An item that
// rises goes to the end of its new level. It gives the priority before and the one now.
func (l *levels[T]) ask(item T, priority int) (before, now int) {
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

// forget takes the priority from item, which must not wait here.
func (l *levels[T]) forget(item T) {
	if p := l.places[item]; p != nil && p.index == outside {
		l.release(p)
	}
}

func (l *levels[T]) release(p *place[T]) {
	delete(l.places, p.item)
	if len(l.free) < keptPlaces {
		*p = place[T]{} // It must not keep the item alive.
		l.free = append(l.free, p)
	}
}

// Touch does nothing: ask has changed what there is to change.
func (l *levels[T]) Touch(T) {}

// Push adds item at the end of its level, that of 0 if it was given none.
func (l *levels[T]) Push(item T) {
	p := l.places[item]
	if p == nil {
		l.ask(item, 0)
		p = l.places[item]
	}
	l.pushed++
	p.number = l.pushed
	heap.Push(&l.heap, p)
}

// Len is the number of items that wait here.
func (l *levels[T]) Len() int { return len(l.heap) }

// Pop takes the next item.
func (l *levels[T]) Pop() T {
	first := l.heap[0]
	heap.Remove(&l.heap, 0)
	item := first.item
	l.popped = first.priority
	l.release(first)
	return item
}

// ranking is the heap.Interface of the places that wait, the next one first.
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
	p, _ := x.(*place[T]) // Only levels pushes.
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
