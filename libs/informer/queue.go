package informer

import (
	"sync"

	"github.com/garboard/garboard/libs/informer/internal/ring"
)

const (
	// batchSize is how many changes are made to the store under one lock.
	batchSize = 1000
	// queueSize is how many changes may wait before the follower has to.
	queueSize = 2 * batchSize
)

// statement is one call of the Sink, as it waits in the queue.
type statement struct {
	// whole says that objects are all there is; else changes led to revision.
	whole   bool
	objects []Object
	// hidden are keys of objects that are there but could not be transformed.
	hidden   []string
	changes  []Change
	revision int64
}

func (s *statement) size() int { return max(1, len(s.changes)) }

// queue stands between the follower and the store, so that the network is read on while the
// store changes. Statements leave it in the order in which they came, none is merged with
// another or dropped.
type queue struct {
	mu         sync.Mutex
	moved      sync.Cond
	statements ring.Ring[statement]
	size       int // changes in statements
	closed     bool
}

func newQueue() *queue {
	q := &queue{}
	q.moved.L = &q.mu
	return q
}

// push adds a statement. It waits while the queue is full.
func (q *queue) push(s statement) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.size >= queueSize && !q.closed {
		q.moved.Wait()
	}
	q.statements.Push(s)
	q.size += s.size()
	q.moved.Broadcast()
}

// pop waits for statements and adds the next batch to batch: one whole view, or changes. What
// is queued is still given after close; then it gives nothing.
func (q *queue) pop(batch []statement) []statement {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.statements.Len() == 0 && !q.closed {
		q.moved.Wait()
	}
	for size := 0; q.statements.Len() > 0 && size < batchSize; {
		next := q.statements.At(q.statements.Head())
		if next.whole && len(batch) > 0 {
			break // It goes alone.
		}
		size += next.size()
		q.size -= next.size()
		batch = append(batch, q.statements.Pop())
		if batch[0].whole {
			break
		}
	}
	q.moved.Broadcast()
	return batch
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.moved.Broadcast()
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.size
}
