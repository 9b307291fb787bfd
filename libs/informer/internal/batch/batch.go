// Package batch is a bounded queue whose reader takes many elements at once.
package batch

import (
	"sync"

	"github.com/garboard/garboard/libs/informer/internal/ring"
)

// Queue connects one writer with one reader. Elements leave it in the order in which they came;
// none is merged with another or dropped.
type Queue[E any] struct {
	// most is the size of a batch.
	most int

	mu     sync.Mutex
	moved  sync.Cond
	queued ring.Ring[sized[E]]
	total  int // sum of the sizes
	closed bool
}

type sized[E any] struct {
	element E
	size    int
	alone   bool
}

// New creates a queue. A batch ends at the element with which the sizes add up to most. The writer
// waits as soon as two batches are queued.
func New[E any](most int) *Queue[E] {
	q := &Queue[E]{most: most}
	q.moved.L = &q.mu
	return q
}

// Push adds an element of a size, at least 1. An element with alone set is a batch of its own. Push
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

// Pop waits for elements and appends the next batch to to. After Close it still returns the queued
// elements, and then nothing.
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

// Len returns the sum of the sizes of the queued elements.
func (q *Queue[E]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total
}
