package workqueue

// ring is a first-in-first-out queue in a circular buffer. It grows by doubling and releases memory
// when it is mostly empty.
type ring[T comparable] struct {
	// items has a length that is 0 or a power of two.
	items []T
	// head is the index of the oldest item, count the number of items.
	head, count int
}

// ringMinimum is the smallest buffer that is kept.
const ringMinimum = 64

// Touch does nothing: an item keeps its place.
func (r *ring[T]) Touch(T) {}

// Push adds item at the tail.
func (r *ring[T]) Push(item T) {
	if r.count == len(r.items) {
		r.resize(max(ringMinimum, 2*len(r.items)))
	}
	r.items[(r.head+r.count)&(len(r.items)-1)] = item
	r.count++
}

// Len returns the number of items.
func (r *ring[T]) Len() int { return r.count }

// Pop removes and returns the item at the head.
func (r *ring[T]) Pop() T {
	var none T
	item := r.items[r.head]
	r.items[r.head] = none // The buffer must not keep it alive.
	r.head = (r.head + 1) & (len(r.items) - 1)
	r.count--
	if len(r.items) > ringMinimum && r.count < len(r.items)/8 {
		r.resize(len(r.items) / 2)
	}
	return item
}

func (r *ring[T]) resize(size int) {
	items := make([]T, size)
	for i := range r.count {
		items[i] = r.items[(r.head+i)&(len(r.items)-1)]
	}
	r.items, r.head = items, 0
}
