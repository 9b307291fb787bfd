// Package pending queues the pending calls of one handler, and coalesces the updates of one object
// when too many wait.
package pending

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer/internal/spool"
	"github.com/garboard/garboard/libs/scheme"
)

// Call is one pending call of handlers. All handlers share it, so it never changes.
type Call[T scheme.Object] struct {
	// Obj is the current object; for a deletion its last state. Old is the state before an update.
	Old, Obj T
	// Revision is the store's revision when the call was queued, and At the time of queueing in
	// nanoseconds since 1970.
	Revision, At int64
	Kind         Kind
	// Last marks the last call of the initial list or of a resync.
	Last bool
	// Unknown means that a deletion was not seen.
	Unknown bool
}

// Kind is what a call reports.
type Kind uint8

// The kinds of calls.
const (
	Add Kind = iota
	InitialAdd
	Update
	Resync
	Delete
)

// Each returns a call for each object, the last marked as such.
func Each[T scheme.Object](kind Kind, objects []T, revision int64) []Call[T] {
	now := time.Now().UnixNano()
	calls := make([]Call[T], len(objects))
	for i, obj := range objects {
		calls[i] = Call[T]{Kind: kind, Obj: obj, Revision: revision, At: now, Last: i == len(objects)-1}
		if kind == Resync {
			calls[i].Old = obj
		}
	}
	return calls
}

// Queue holds the calls that wait for one handler. Its owner's lock guards it.
type Queue[T scheme.Object] struct {
	// limit is the number of pending calls from which updates of one object coalesce; never when
	// negative.
	limit int
	calls spool.Spool[Call[T]]
	// updates has the last call for each object, if that is an update. It is kept only while the
	// queue is long; otherwise it is nil.
	updates map[identity]update[T]
}

// update is an update in a queue.
type update[T scheme.Object] struct {
	place uint64
	call  *Call[T]
	// merged means that this handler has its own copy of the call.
	merged bool
}

// identity is one life of one object.
type identity struct {
	namespace, name string
	uid             types.UID
}

func identityOf(obj scheme.Object) identity {
	return identity{obj.GetNamespace(), obj.GetName(), obj.GetUID()}
}

// New creates an empty queue in which updates of one object coalesce once limit calls wait; never
// when limit is negative.
func New[T scheme.Object](limit int) *Queue[T] { return &Queue[T]{limit: limit} }

// Len returns how many calls wait.
func (q *Queue[T]) Len() int { return q.calls.Len() }

// First returns the next call; there must be one. It must not be changed.
func (q *Queue[T]) First() *Call[T] { return q.calls.First() }

// Pop removes and returns the next call; there must be one.
func (q *Queue[T]) Pop() *Call[T] {
	call := q.calls.Pop()
	if q.updates != nil && q.calls.Len() < q.limit/2 {
		q.updates = nil
	}
	return call
}

// Clear drops all calls.
func (q *Queue[T]) Clear() { q.calls, q.updates = spool.Spool[Call[T]]{}, nil }

// Push queues calls, and returns how many were merged into an earlier call. The slice must not
// change afterwards.
func (q *Queue[T]) Push(calls []Call[T]) (merged int) {
	if q.updates == nil {
		free := max(0, q.limit-q.calls.Len())
		if q.limit < 0 || len(calls) <= free {
			q.calls.Push(calls)
			return 0
		}
		q.calls.Push(calls[:free])
		calls = calls[free:]
		q.findUpdates()
	}
	// Calls that do not coalesce are queued as they came, in pieces.
	begin := 0
	for i := range calls {
		call := &calls[i]
		place := q.calls.Tail() + uint64(i-begin)
		id := identityOf(call.Obj)
		if call.Kind != Update {
			// Calls before an add, a delete or a resync of an object stay before it.
			delete(q.updates, id)
			continue
		}
		earlier, waits := q.updates[id]
		if !waits || earlier.place < q.calls.Head() || place-q.calls.Head() < uint64(q.limit) {
			q.updates[id] = update[T]{place: place, call: call}
			continue
		}
		if !earlier.merged {
			own := *earlier.call // Other handlers share the original.
			earlier.call, earlier.merged = &own, true
			q.calls.Replace(earlier.place, &own)
			q.updates[id] = earlier
		}
		earlier.call.Obj = call.Obj
		merged++
		q.calls.Push(calls[begin:i])
		begin = i + 1
	}
	q.calls.Push(calls[begin:])
	return merged
}

// findUpdates records where updates wait, once the queue has become long.
func (q *Queue[T]) findUpdates() {
	q.updates = map[identity]update[T]{}
	q.calls.All(func(place uint64, call *Call[T]) {
		id := identityOf(call.Obj)
		if call.Kind == Update {
			// It may have been merged before; copying it once more does no harm.
			q.updates[id] = update[T]{place: place, call: call}
		} else {
			delete(q.updates, id)
		}
	})
}
