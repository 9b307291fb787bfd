// Package batch is a bounded queue whose reader takes many elements at once.
package batch

import (
	"sync"

	"github.com/garboard/garboard/libs/informer/internal/ring"
)

// Queue stands between one who writes and one who reads. Elements leave it in the order in which
// they came, none is merged with another or dropped.
type Queue[E any] struct {
	// most is the size of a batch.
	most int

	mu     sync.Mutex
	moved  sync.Cond
	queued ring.Ring[sized[E]]
	total  int // of the sizes
	closed bool
}

type sized[E any] struct {
	element E
	size    int
	alone   bool
}

// New makes a queue. Batches end at the element with which their sizes come to most, and as soon
// as two batches are queued the writer waits.
func New[E any](most int) *Queue[E] {
	q := &Queue[E]{most: most}
	q.moved.L = &q.mu
	return q
}

// Push adds an element of a size, at least 1. Alone says that it must be a batch of its own. It
// waits while the queue is full and not closed.
func (q *Queue[E]) Push(element E, size int, alone bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.total >= 2*q.most && !q.closed {
		q.moved.Wait()
	}
	q.queued.Push(sized[E]{element, size, alone})
	q.total += size
	q.moved.Broadcast()
}

// Pop waits for elements and appends the next batch to to. What is queued is still given after
// Close; then it gives nothing.
func (q *Queue[E]) Pop(to []E) []E {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.queued.Len() == 0 && !q.closed {
		q.moved.Wait()
	}
	for taken := 0; q.queued.Len() > 0 && taken < q.most; {
		next := q.queued.At(q.queued.Head())
		if next.alone && taken > 0 {
			break
		}
		e := q.queued.Pop()
		taken += e.size
		q.total -= e.size
		to = append(to, e.element)
		if e.alone {
			break
		}
	}
	q.moved.Broadcast()
	return to
}

// Close ends the waits.
func (q *Queue[E]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.moved.Broadcast()
}

// Len is the sum of the sizes of what is queued.
func (q *Queue[E]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}
