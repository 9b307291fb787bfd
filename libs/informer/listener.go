package informer

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/informer/internal/pending"
	"github.com/garboard/garboard/libs/informer/watcher"
)

// listener is one handler with its buffer. The informer adds to the buffer, and the listener's own
// goroutine empties it, so a slow handler delays no other.
type listener[T Object] struct {
	handler   ResourceEventHandler[T]
	name      string
	of        string // the informer
	resync    time.Duration
	logger    *slog.Logger
	panics    prometheus.Counter
	coalesced prometheus.Counter

	mu     sync.Mutex
	filled *sync.Cond // signalled when a call is added to the buffer, or the listener ends
	buffer *pending.Queue[T]
	// calling is the running call, without its objects; its time is 0 when there is none.
	calling      struct{ revision, at int64 }
	merged, lost int
	// resyncing means that an earlier resync is not yet delivered.
	resyncing bool
	started   bool
	removed   bool
	ended     chan struct{} // closed when removed, or when the informer has ended
	returned  chan struct{} // closed when the handler will not be called again
	synced    chan struct{} // closed after the initial list
	isSynced  bool
}

// HasSynced reports whether the handler has returned from every call of its initial list.
func (l *listener[T]) HasSynced() bool { return isClosed(l.synced) }

// HasSyncedChecker returns a checker that is done when HasSynced is true.
func (l *listener[T]) HasSyncedChecker() DoneChecker {
	return checker{name: l.of + " at " + l.name, done: l.synced}
}

// add queues calls, unless the listener was removed.
func (l *listener[T]) add(calls []pending.Call[T]) {
	if len(calls) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return
	}
	merged := l.buffer.Push(calls)
	l.merged += merged
	l.coalesced.Add(float64(merged))
	l.filled.Signal()
}

// initial queues the initial list. An empty list is finished at once.
func (l *listener[T]) initial(list []pending.Call[T]) {
	if len(list) == 0 {
		l.markSynced()
		return
	}
	l.add(list)
}

func (l *listener[T]) markSynced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isSynced {
		l.isSynced = true
		close(l.synced)
	}
}

// end drops the queued calls and accepts no more. The handler is not called again, but a running
// call may end later.
func (l *listener[T]) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return
	}
	l.removed = true
	l.buffer.Clear()
	close(l.ended)
	l.filled.Signal()
	if !l.started {
		close(l.returned)
	}
}

// start announces that run will be called; it returns false if the listener was removed before.
func (l *listener[T]) start() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = !l.removed
	return l.started
}

// startResync reports whether a resync may be queued: no resync of an earlier period is pending.
func (l *listener[T]) startResync() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resyncing || l.removed {
		return false
	}
	l.resyncing = true
	return true
}

func (l *listener[T]) resyncDone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resyncing = false
}

// run delivers until the listener ends.
func (l *listener[T]) run() {
	defer close(l.returned)
	for {
		call, ok := l.next()
		if !ok {
			return
		}
		l.deliver(call)
	}
}

// next waits for the next call; it returns false when the listener has ended.
func (l *listener[T]) next() (*pending.Call[T], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calling.revision, l.calling.at = 0, 0
	for l.buffer.Len() == 0 && !l.removed {
		l.filled.Wait()
	}
	if l.removed {
		return nil, false
	}
	call := l.buffer.Pop()
	l.calling.revision, l.calling.at = call.Revision, call.At
	return call, true
}

// deliver makes one call. A panic costs only this call; the last call of an initial list still
// completes the list.
func (l *listener[T]) deliver(call *pending.Call[T]) {
	defer func() {
		if r := recover(); r != nil {
			l.panics.Inc()
			l.mu.Lock()
			l.lost++
			l.mu.Unlock()
			l.logger.Error("an event handler panicked; it does not get this change again",
				"handler", l.name, "object", Key(call.Obj), "panic", r, "stack", string(debug.Stack()))
		}
		if !call.Last {
			return
		}
		if call.Kind == pending.InitialAdd {
			l.markSynced()
			return
		}
		l.resyncDone()
	}()
	switch call.Kind {
	case pending.Add, pending.InitialAdd:
		l.handler.OnAdd(call.Obj, call.Kind == pending.InitialAdd)
	case pending.Update, pending.Resync:
		l.handler.OnUpdate(call.Old, call.Obj)
	case pending.Delete:
		l.handler.OnDelete(DeletedObject[T]{Key: Key(call.Obj), OptionalObj: call.Obj, FinalStateUnknown: call.Unknown})
	}
}

// status reports how far the handler is behind the store.
func (l *listener[T]) status(now time.Time, revision int64) watcher.Handler {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := watcher.Handler{
		Name: l.name, Pending: l.buffer.Len(), Synced: l.isSynced, Coalesced: l.merged, Panics: l.lost,
	}
	oldest := l.calling
	if oldest.at == 0 && l.buffer.Len() > 0 {
		head := l.buffer.First()
		oldest.revision, oldest.at = head.Revision, head.At
	}
	if oldest.at != 0 {
		status.LagRevisions = max(0, revision-oldest.revision+1)
		status.LagSeconds = max(0, now.Sub(time.Unix(0, oldest.at)).Seconds())
	}
	return status
}

// handlerName returns the handler's name in logs, metrics and reports.
func handlerName(name string, handler any) string {
	if name != "" {
		return name
	}
	return fmt.Sprintf("%T", handler)
}
