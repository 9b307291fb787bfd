package workqueue

// levels is a Queue that hands out the highest priority first, and of one priority what came
// first.
type levels[T comparable] struct {
	// places are those of the items that have a priority: they wait here, or for their time, or
	// for the worker that holds them.
	places map[T]*place[T]
	// heap holds the items that wait here, the next one first.
	heap []*place[T]
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
			l.up(p.index)
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
	p.number, p.index = l.pushed, len(l.heap)
	l.heap = append(l.heap, p)
	l.up(p.index)
}

// Len is the number of items that wait here.
func (l *levels[T]) Len() int { return len(l.heap) }

// Pop takes the next item.
func (l *levels[T]) Pop() T {
	first, last := l.heap[0], len(l.heap)-1
	l.swap(0, last)
	l.heap[last] = nil
	l.heap = l.heap[:last]
	l.down(0)
	item := first.item
	l.popped = first.priority
	l.release(first)
	return item
}

func (l *levels[T]) before(i, j int) bool {
	a, b := l.heap[i], l.heap[j]
	if a.priority == b.priority {
		return a.number < b.number
	}
	return a.priority > b.priority
}

func (l *levels[T]) swap(i, j int) {
	l.heap[i], l.heap[j] = l.heap[j], l.heap[i]
	l.heap[i].index, l.heap[j].index = i, j
}

func (l *levels[T]) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !l.before(i, parent) {
			return
		}
		l.swap(i, parent)
		i = parent
	}
}

func (l *levels[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(l.heap) {
			return
		}
		if right := child + 1; right < len(l.heap) && l.before(right, child) {
			child = right
		}
		if !l.before(child, i) {
			return
		}
		l.swap(i, child)
		i = child
	}
}
