package informer

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// notification is one call that a handler is owed.
type notification[T Object] struct {
	what     notice
	old, obj T
	deleted  DeletedObject[T]
}

// notice is the kind of a notification.
type notice uint8

const (
	noticeAdd notice = iota
	noticeInitialAdd
	noticeUpdate
	noticeDelete
	// noticeSynced comes after the last initial add.
	noticeSynced
	// noticeResynced comes after the last update of a resync.
	noticeResynced
)

// listener is one handler with its buffer. The informer adds to the buffer, and the
// listener's own goroutine empties it, so that a slow handler holds up nobody else.
type listener[T Object] struct {
	handler ResourceEventHandler[T]
	resync  time.Duration
	logger  *slog.Logger
	pending prometheus.Gauge
	panics  prometheus.Counter

	mu     sync.Mutex
	buffer []notification[T]
	// wake has a token when the buffer may have something for a goroutine that sleeps.
	wake chan struct{}
	// resyncing says that an earlier resync is not yet delivered.
	resyncing bool
	removed   bool
	ended     chan struct{} // closed when removed
	synced    chan struct{} // closed after the initial list
	isSynced  bool
}

// HasSynced says whether the handler has returned from every call of its initial list.
func (l *listener[T]) HasSynced() bool {
	select {
	case <-l.synced:
		return true
	default:
		return false
	}
}

// keptBuffer bounds, in notifications, the buffer that is kept for reuse.
const keptBuffer = 4096

// add queues notifications, unless the listener was removed.
func (l *listener[T]) add(notifications ...notification[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed || len(notifications) == 0 {
		return
	}
	l.buffer = append(l.buffer, notifications...)
	l.pending.Add(float64(len(notifications)))
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// initial queues the initial list. An empty one is over at once.
func (l *listener[T]) initial(objects []T) {
	notifications := make([]notification[T], 0, len(objects)+1)
	for _, obj := range objects {
		notifications = append(notifications, notification[T]{what: noticeInitialAdd, obj: obj})
	}
	if len(objects) == 0 {
		l.markSynced()
		return
	}
	l.add(append(notifications, notification[T]{what: noticeSynced})...)
}

func (l *listener[T]) markSynced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isSynced {
		l.isSynced = true
		close(l.synced)
	}
}

// remove drops what is queued and queues nothing more; it says whether it was the first.
func (l *listener[T]) remove() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return false
	}
	l.removed = true
	l.pending.Sub(float64(len(l.buffer)))
	l.buffer = nil
	close(l.ended)
	return true
}

// startResync says whether a resync may be queued: none of an earlier period waits.
func (l *listener[T]) startResync() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.resyncing || l.removed {
		return false
	}
	l.resyncing = true
	return true
}

// run delivers until the listener is removed or stop is closed.
func (l *listener[T]) run(stop <-chan struct{}) {
	var batch []notification[T]
	for {
		select {
		case <-stop:
			return
		case <-l.ended:
			return
		case <-l.wake:
		}
		l.mu.Lock()
		batch, l.buffer = l.buffer, batch[:0]
		l.mu.Unlock()
		for i := range batch {
			select {
			case <-stop:
				return
			case <-l.ended:
				l.pending.Sub(float64(len(batch) - i))
				return
			default:
			}
			l.pending.Dec()
			l.deliver(&batch[i])
			batch[i] = notification[T]{} // The buffer must not keep the objects alive.
		}
		if cap(batch) > keptBuffer {
			batch = nil
		}
	}
}

// deliver makes one call. A panic costs this notification only.
func (l *listener[T]) deliver(n *notification[T]) {
	defer func() {
		if r := recover(); r != nil {
			l.panics.Inc()
			l.logger.Error("an event handler panicked; the change is lost to it",
				"handler", fmt.Sprintf("%T", l.handler), "panic", r, "stack", string(debug.Stack()))
		}
	}()
	switch n.what {
	case noticeAdd, noticeInitialAdd:
		l.handler.OnAdd(n.obj, n.what == noticeInitialAdd)
	case noticeUpdate:
		l.handler.OnUpdate(n.old, n.obj)
	case noticeDelete:
		l.handler.OnDelete(n.deleted)
	case noticeSynced:
		l.markSynced()
	case noticeResynced:
		l.mu.Lock()
		l.resyncing = false
		l.mu.Unlock()
	}
}
