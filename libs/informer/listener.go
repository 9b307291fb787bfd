package informer

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer/internal/spool"
	"github.com/garboard/garboard/libs/informer/watcher"
)

// notification is one call that handlers are owed. All handlers share it, so it never changes.
type notification[T Object] struct {
	// obj is the object now; the last state for a deletion.
	old, obj T
	// revision is the store's when the notification was queued, and at the time of it in
	// nanoseconds since 1970.
	revision, at int64
	what         notice
	// last says that the initial list, or the resync, is over with this.
	last bool
	// unknown says that a deletion was not seen.
	unknown bool
}

// pendingUpdate is an update in a buffer.
type pendingUpdate[T Object] struct {
	place uint64
	n     *notification[T]
	// merged says that it is this handler's alone.
	merged bool
}

// notice is the kind of a notification.
type notice uint8

const (
	noticeAdd notice = iota
	noticeInitialAdd
	noticeUpdate
	noticeResync
	noticeDelete
)

// identity is one life of one object.
type identity struct {
	namespace, name string
	uid             types.UID
}

func identityOf(obj Object) identity {
	return identity{obj.GetNamespace(), obj.GetName(), obj.GetUID()}
}

// listener is one handler with its buffer. The informer adds to the buffer, and the
// listener's own goroutine empties it, so that a slow handler holds up nobody else.
type listener[T Object] struct {
	handler ResourceEventHandler[T]
	name    string
	of      string // the informer
	resync  time.Duration
	// backlog is from how many pending notifications on updates of one object coalesce;
	// never when negative.
	backlog   int
	logger    *slog.Logger
	panics    prometheus.Counter
	coalesced prometheus.Counter

	mu     sync.Mutex
	filled *sync.Cond // signalled when the buffer gets something, or the listener ends
	buffer spool.Spool[notification[T]]
	// updates has the last notification of each object, where it is an update. It is kept only
	// while the backlog is long; nil else.
	updates map[identity]pendingUpdate[T]
	// calling is the call that runs, without its objects; its time is 0 when none does.
	calling      struct{ revision, at int64 }
	merged, lost int
	// resyncing says that an earlier resync is not yet delivered.
	resyncing bool
	started   bool
	removed   bool
	ended     chan struct{} // closed when removed, or when the informer has ended
	returned  chan struct{} // closed when the handler is called no more
	synced    chan struct{} // closed after the initial list
	isSynced  bool
}

// HasSynced says whether the handler has returned from every call of its initial list.
func (l *listener[T]) HasSynced() bool { return isClosed(l.synced) }

// HasSyncedChecker is done when HasSynced is true.
func (l *listener[T]) HasSyncedChecker() DoneChecker {
	return checker{name: l.of + " at " + l.name, done: l.synced}
}

// add queues notifications, unless the listener was removed.
func (l *listener[T]) add(notifications []notification[T]) {
	if len(notifications) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return
	}
	l.push(notifications)
	l.filled.Signal()
}

// push queues notifications. The caller holds the lock.
func (l *listener[T]) push(notifications []notification[T]) {
	if l.updates == nil {
		free := max(0, l.backlog-l.buffer.Len())
		if l.backlog < 0 || len(notifications) <= free {
			l.buffer.Push(notifications)
			return
		}
		l.buffer.Push(notifications[:free])
		notifications = notifications[free:]
		l.findUpdates()
	}
	// What does not coalesce is queued as it came, in pieces.
	begin := 0
	for i := range notifications {
		n := &notifications[i]
		place := l.buffer.Tail() + uint64(i-begin)
		id := identityOf(n.obj)
		if n.what != noticeUpdate {
			// What comes before an add, a delete or a resync of an object stays before it.
			delete(l.updates, id)
			continue
		}
		update, pending := l.updates[id]
		if !pending || update.place < l.buffer.Head() || place-l.buffer.Head() < uint64(l.backlog) {
			l.updates[id] = pendingUpdate[T]{place: place, n: n}
			continue
		}
		if !update.merged {
			merged := *update.n // Other handlers get it as it is.
			update.n, update.merged = &merged, true
			l.buffer.Replace(update.place, &merged)
			l.updates[id] = update
		}
		update.n.obj = n.obj
		l.merged++
		l.coalesced.Inc()
		l.buffer.Push(notifications[begin:i])
		begin = i + 1
	}
	l.buffer.Push(notifications[begin:])
}

// findUpdates notes where updates are pending, when the backlog has become long.
func (l *listener[T]) findUpdates() {
	l.updates = map[identity]pendingUpdate[T]{}
	l.buffer.All(func(place uint64, n *notification[T]) {
		id := identityOf(n.obj)
		if n.what == noticeUpdate {
			// It may have been merged before; to copy it once more does no harm.
			l.updates[id] = pendingUpdate[T]{place: place, n: n}
		} else {
			delete(l.updates, id)
		}
	})
}

// initial queues the initial list. An empty one is over at once.
func (l *listener[T]) initial(list []notification[T]) {
	if len(list) == 0 {
		l.markSynced()
		return
	}
	l.add(list)
}

// each is a notification on each object, the last marked as such.
func each[T Object](what notice, objects []T, revision int64) []notification[T] {
	now := time.Now().UnixNano()
	notifications := make([]notification[T], len(objects))
	for i, obj := range objects {
		notifications[i] = notification[T]{what: what, obj: obj, revision: revision, at: now, last: i == len(objects)-1}
		if what == noticeResync {
			notifications[i].old = obj
		}
	}
	return notifications
}

func (l *listener[T]) markSynced() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isSynced {
		l.isSynced = true
		close(l.synced)
	}
}

// end drops what is queued and queues nothing more. The handler is called no more, but a call
// that runs may still end later.
func (l *listener[T]) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return
	}
	l.removed = true
	l.buffer, l.updates = spool.Spool[notification[T]]{}, nil
	close(l.ended)
	l.filled.Signal()
	if !l.started {
		close(l.returned)
	}
}

// start says that run will be called; false if the listener was removed before.
func (l *listener[T]) start() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.started = !l.removed
	return l.started
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

func (l *listener[T]) resyncDone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.resyncing = false
}

// run delivers until the listener ends.
func (l *listener[T]) run() {
	defer close(l.returned)
	for {
		n, ok := l.next()
		if !ok {
			return
		}
		l.deliver(n)
	}
}

// next waits for the next notification; false when the listener has ended.
func (l *listener[T]) next() (*notification[T], bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calling.revision, l.calling.at = 0, 0
	for l.buffer.Len() == 0 && !l.removed {
		l.filled.Wait()
	}
	if l.removed {
		return nil, false
	}
	n := l.buffer.Pop()
	if l.updates != nil && l.buffer.Len() < l.backlog/2 {
		l.updates = nil
	}
	l.calling.revision, l.calling.at = n.revision, n.at
	return n, true
}

// deliver makes one call. A panic costs this notification only, and the initial list that it
// belongs to is over with its last call nevertheless.
func (l *listener[T]) deliver(n *notification[T]) {
	defer func() {
		if r := recover(); r != nil {
			l.panics.Inc()
			l.mu.Lock()
			l.lost++
			l.mu.Unlock()
			l.logger.Error("an event handler panicked; the change is lost to it",
				"handler", l.name, "object", Key(n.obj), "panic", r, "stack", string(debug.Stack()))
		}
		if !n.last {
			return
		}
		if n.what == noticeInitialAdd {
			l.markSynced()
			return
		}
		l.resyncDone()
	}()
	switch n.what {
	case noticeAdd, noticeInitialAdd:
		l.handler.OnAdd(n.obj, n.what == noticeInitialAdd)
	case noticeUpdate, noticeResync:
		l.handler.OnUpdate(n.old, n.obj)
	case noticeDelete:
		l.handler.OnDelete(DeletedObject[T]{Key: Key(n.obj), OptionalObj: n.obj, FinalStateUnknown: n.unknown})
	}
}

// status says how far the handler is behind the store.
func (l *listener[T]) status(now time.Time, revision int64) watcher.Handler {
	l.mu.Lock()
	defer l.mu.Unlock()
	status := watcher.Handler{
		Name: l.name, Pending: l.buffer.Len(), Synced: l.isSynced, Coalesced: l.merged, Panics: l.lost,
	}
	oldest := l.calling
	if oldest.at == 0 && l.buffer.Len() > 0 {
		head := l.buffer.First()
		oldest.revision, oldest.at = head.revision, head.at
	}
	if oldest.at != 0 {
		status.LagRevisions = max(0, revision-oldest.revision+1)
		status.LagSeconds = max(0, now.Sub(time.Unix(0, oldest.at)).Seconds())
	}
	return status
}

// handlerName is how a handler is called in logs, metrics and reports.
func handlerName(name string, handler any) string {
	if name != "" {
		return name
	}
	return fmt.Sprintf("%T", handler)
}
