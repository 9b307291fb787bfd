// Package batch is a bounded queue whose reader takes many elements at once.
package batch

import (
	"sync"

	"github.com/garboard/garboard/libs/informer/internal/ring"
)

// Queue stands between one who writes and one who reads. Elements leave it in the order in which
// they came, none is merged with another or dropped.
type Queue[E any] struct {
	size  func(*E) int
	alone func(*E) bool
	// most is the size of a batch.
	most int

	mu     sync.Mutex
	moved  sync.Cond
	queued ring.Ring[E]
	total  int // of the sizes
	closed bool
}

// New makes a queue. Size gives that of an element, at least 1; alone says that an element must
// be a batch of its own. Batches end at the element with which they come to most, and as soon as
// two batches are queued the writer waits.
func New[E any](most int, size func(*E) int, alone func(*E) bool) *Queue[E] {
	q := &Queue[E]{size: size, alone: alone, most: most}
	q.moved.L = &q.mu
	return q
}

// Push adds an element. It waits while the queue is full and not closed.
func (q *Queue[E]) Push(element E) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.total >= 2*q.most && !q.closed {
		q.moved.Wait()
	}
	q.queued.Push(element)
	q.total += q.size(&element)
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
		alone := q.alone(next)
		if alone && taken > 0 {
			break
		}
		size := q.size(next)
		taken += size
		q.total -= size
		to = append(to, q.queued.Pop())
		if alone {
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
