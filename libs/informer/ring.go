package informer

// ring is a queue in one array, which grows by doubling and shrinks by halving.
type ring[E any] struct {
	slots []E // A power of two of them, or none.
	head  uint64
	tail  uint64
}

// smallestRing is the size, in elements, below which a ring does not shrink.
const smallestRing = 64

func (r *ring[E]) len() int { return int(r.tail - r.head) }

// push adds at the tail and gives the element's place, which stays its own.
func (r *ring[E]) push(element E) uint64 {
	if r.len() == len(r.slots) {
		r.resize(max(smallestRing, 2*len(r.slots)))
	}
	place := r.tail
	*r.at(place) = element
	r.tail++
	return place
}

// pop takes the head; the ring must have one. Its slot is cleared, so that nothing is kept alive.
func (r *ring[E]) pop() E {
	var zero E
	slot := r.at(r.head)
	element := *slot
	*slot = zero
	r.head++
	if len(r.slots) > smallestRing && r.len() <= len(r.slots)/4 {
		r.resize(len(r.slots) / 2)
	}
	return element
}

// at is the slot of a place between head and tail.
func (r *ring[E]) at(place uint64) *E { return &r.slots[place&uint64(len(r.slots)-1)] }

func (r *ring[E]) resize(size int) {
	old := *r
	r.slots = make([]E, size)
	for place := old.head; place != old.tail; place++ {
		*r.at(place) = *old.at(place)
	}
}
