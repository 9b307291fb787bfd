// Package ring is a queue that shrinks again after it was long.
package ring

// Ring is a queue in one array, which grows by doubling and shrinks by halving.
type Ring[E any] struct {
	slots []E // A power of two of them, or none.
	head  uint64
	tail  uint64
}

// smallest is the size, in elements, below which a ring does not shrink.
const smallest = 64

// Len returns the number of elements.
func (r *Ring[E]) Len() int { return int(r.tail - r.head) }

// Push adds an element at the tail and returns its place, which it keeps.
func (r *Ring[E]) Push(element E) uint64 {
	if r.Len() == len(r.slots) {
		r.resize(max(smallest, 2*len(r.slots)))
	}
	place := r.tail
	*r.At(place) = element
	r.tail++
	return place
}

// Pop removes and returns the head; the ring must not be empty. The slot is cleared, so the ring
// keeps nothing alive.
func (r *Ring[E]) Pop() E {
	var zero E
	slot := r.At(r.head)
	element := *slot
	*slot = zero
	r.head++
	if len(r.slots) > smallest && r.Len() <= len(r.slots)/4 {
		r.resize(len(r.slots) / 2)
	}
	return element
}

// At returns the slot of a place between head and tail.
func (r *Ring[E]) At(place uint64) *E { return &r.slots[place&uint64(len(r.slots)-1)] }

// Head returns the place of the first element.
func (r *Ring[E]) Head() uint64 { return r.head }

// Tail returns the place of the next element to be pushed.
func (r *Ring[E]) Tail() uint64 { return r.tail }

func (r *Ring[E]) resize(size int) {
	old := *r
	r.slots = make([]E, size)
	for place := old.head; place != old.tail; place++ {
		*r.At(place) = *old.At(place)
	}
}
