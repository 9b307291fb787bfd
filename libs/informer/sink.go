package informer

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer/internal/batch"
	"github.com/garboard/garboard/libs/informer/internal/pending"
)

// batchSize is how many changes are applied to the store under one lock. The follower has to wait
// when twice as many are queued.
const batchSize = 1000

// statement is one call of the Sink, waiting in the queue between follower and store. The queue
// lets the follower read the network while the store changes.
type statement struct {
	// whole means that objects are the whole view; otherwise changes led to revision.
	whole   bool
	objects []Object
	// hidden are the keys of objects that exist but could not be transformed.
	hidden   []string
	changes  []Change
	revision int64
	// history is the history of a whole view.
	history fabric.History
	// confirmed means that the statement is not a change: the preloaded content holds. still means
	// that nothing happened up to revision, exact that nothing but its one change happened.
	confirmed, still, exact bool
}

// newQueue creates a queue in which a statement counts as many elements as it has changes, and a
// whole view is a batch of its own.
func newQueue() *batch.Queue[statement] { return batch.New[statement](batchSize) }

// Replace states that the view holds exactly these objects at a position. It replaces the store
// first; then handlers hear of the objects that are gone, and then of those that are new or differ.
func (s *shared[T]) Replace(at fabric.Position, objects []Object) {
	st := statement{whole: true, objects: objects, revision: at.Revision, history: at.History}
	if s.transform != nil {
		st.objects = make([]Object, 0, len(objects))
		for _, object := range objects {
			if transformed, ok := s.transformed(object); ok {
				st.objects = append(st.objects, transformed)
			} else if object != nil {
				st.hidden = append(st.hidden, Key(object))
			}
		}
	}
	s.enqueue(st)
}

// Apply states that these changes, in order, lead to revision.
func (s *shared[T]) Apply(changes []Change, revision int64) {
	st := statement{changes: changes, revision: revision, still: len(changes) == 0}
	st.exact = len(changes) == 1 && changes[0].Prev != 0 && changes[0].Revision == revision
	if s.transform != nil {
		st.changes = make([]Change, 0, len(changes))
		for _, c := range changes {
			if c.Object != nil {
				transformed, ok := s.transformed(c.Object)
				switch {
				case ok:
					c.Object = transformed
				case c.Deleted:
					c.Object = nil // The object is deleted all the same.
				default:
					continue
				}
			}
			st.changes = append(st.changes, c)
		}
	}
	s.enqueue(st)
}

// Confirmed reports that the content with which the follower resumed still holds.
func (s *shared[T]) Confirmed() { s.enqueue(statement{confirmed: true}) }

// Preload fills the store with the content from which the follower resumes.
func (s *shared[T]) Preload(at fabric.Position, objects []Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.Lock()
	defer s.store.Unlock()
	for _, object := range objects {
		if obj, ok := s.typed(object); ok {
			s.put(Key(obj), obj)
		}
	}
	s.store.MoveTo(at.Revision)
	s.history = at.History
	s.trail.Begin(at, s.content)
	return true
}

// Intervals calls observe with each interval of revisions and its content.
func (s *shared[T]) Intervals(observe func(Interval)) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trail.Observe(&observe, s.isSynced)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.trail.Forget(&observe)
	}
}

// content returns what the store holds. The caller holds mu, without which the store cannot change.
func (s *shared[T]) content() []Object {
	objects := make([]Object, 0, s.store.Len())
	for _, obj := range s.store.All() {
		objects = append(objects, obj)
	}
	return objects
}

// Known reports that etcd has reached revision.
func (s *shared[T]) Known(revision int64) { s.progress.Know(revision, time.Now()) }

// WatchError reports that the view cannot be followed at the moment.
func (s *shared[T]) WatchError(ctx context.Context, err error) {
	s.metrics.Faults.WithLabelValues(s.service, s.name, "watch").Inc()
	s.mu.Lock()
	handler := s.watchError
	s.mu.Unlock()
	if handler != nil {
		handler(ctx, err)
	}
}

// enqueue queues a statement. Before Run the informer has no goroutine to apply it, so the caller's
// goroutine does.
func (s *shared[T]) enqueue(st statement) {
	s.progress.Hear(st.revision, time.Now())
	if s.started.Load() {
		s.queue.Push(st, max(1, len(st.changes)), st.whole || st.confirmed)
		return
	}
	s.process([]statement{st})
}

// processLoop applies the queued statements until the queue is closed and empty.
func (s *shared[T]) processLoop() {
	var batch []statement
	for {
		batch = s.queue.Pop(batch[:0])
		if len(batch) == 0 {
			return
		}
		started := time.Now()
		s.process(batch)
		s.latency.Observe(time.Since(started).Seconds())
		clear(batch)
	}
}

// process applies a batch of statements to the store and then notifies handlers.
func (s *shared[T]) process(batch []statement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = time.Now().UnixNano()
	whole := batch[0].whole
	if !whole {
		size := 0
		for i := range batch {
			size += len(batch[i].changes)
		}
		s.pending = make([]pending.Call[T], 0, size)
	}

	s.store.Lock()
	for i := range batch {
		st := &batch[i]
		switch {
		case st.confirmed:
			continue
		case st.whole:
			s.replace(st)
			s.trail.Begin(fabric.Position{History: st.history, Revision: st.revision}, s.content)
		case st.still:
			s.trail.Extend(st.revision)
		default:
			s.trail.Change(st.revision, st.exact)
			for j := range st.changes {
				s.change(&st.changes[j])
			}
		}
		s.store.MoveTo(st.revision)
		s.trail.Notify()
	}
	s.store.Unlock()
	revision := s.store.Revision()

	switch {
	case s.isSynced:
		for _, l := range s.listeners {
			l.add(s.pending)
		}
	case whole || batch[0].confirmed:
		// Handlers heard nothing before the first whole view, so every object is new to them.
		s.isSynced = true
		initial := pending.Each(pending.InitialAdd, s.store.List(), revision)
		for _, l := range s.listeners {
			l.initial(initial)
		}
		close(s.synced)
	}
	s.progress.Reach(revision, time.Now())
	if s.moved != nil {
		close(s.moved)
		s.moved = nil
	}
	s.changes.Add(float64(len(s.pending)))
	if s.trace != nil {
		for i := range batch {
			s.hops(&batch[i])
		}
		if whole {
			s.hopsOfWholeView(revision)
		}
	}
	s.pending = nil
}

// replace replaces the content with a whole view (I5). The caller holds both locks.
func (s *shared[T]) replace(st *statement) {
	// Another history may use the same revision for other content.
	renewed := st.history != s.history
	if renewed {
		s.progress.Renew()
	}
	s.history = st.history
	filled := s.store.Len() > 0
	if !filled {
		s.store.Reset(len(st.objects))
	}
	present := make(map[string]struct{}, len(st.objects)+len(st.hidden))
	for _, key := range st.hidden {
		present[key] = struct{}{}
	}
	var come []pending.Call[T]
	for _, object := range st.objects {
		obj, ok := s.typed(object)
		if !ok {
			if object != nil {
				present[Key(object)] = struct{}{} // The object exists, although it cannot be shown.
			}
			continue
		}
		key := Key(obj)
		present[key] = struct{}{}
		old, known := s.store.Held(key)
		switch {
		case !known:
			come = append(come, s.call(pending.Add, obj, st.revision))
		case old.GetUID() != obj.GetUID():
			s.gone(old, st.revision)
			come = append(come, s.call(pending.Add, obj, st.revision))
		case old.GetResourceVersion() != obj.GetResourceVersion(),
			renewed && !equality.Semantic.DeepEqual(old, obj):
			call := s.call(pending.Update, obj, st.revision)
			call.Old = old
			come = append(come, call)
		default:
			continue
		}
		s.put(key, obj)
	}
	if filled {
		for key, old := range s.store.All() {
			if _, there := present[key]; !there {
				s.gone(old, st.revision)
				s.drop(key)
			}
		}
	}
	s.pending = append(s.pending, come...)
}

// change applies one change. The caller holds both locks.
func (s *shared[T]) change(c *Change) {
	key := KeyOf(c.Namespace, c.Name)
	old, known := s.store.Held(key)
	if c.Deleted {
		last := old
		if c.Object != nil {
			if sent, ok := s.typed(c.Object); ok {
				last, known = sent, true
			}
		}
		if !known {
			return // Created and deleted between two statements: no handler knew of it.
		}
		s.drop(key)
		s.pending = append(s.pending, s.call(pending.Delete, last, c.Revision))
		return
	}
	obj, ok := s.typed(c.Object)
	if !ok {
		return
	}
	switch {
	case !known:
		s.pending = append(s.pending, s.call(pending.Add, obj, c.Revision))
	case old.GetUID() != obj.GetUID():
		s.gone(old, c.Revision)
		s.pending = append(s.pending, s.call(pending.Add, obj, c.Revision))
	default:
		call := s.call(pending.Update, obj, c.Revision)
		call.Old = old
		s.pending = append(s.pending, call)
	}
	s.put(key, obj)
}

func (s *shared[T]) call(kind pending.Kind, obj T, revision int64) pending.Call[T] {
	return pending.Call[T]{Kind: kind, Obj: obj, Revision: revision, At: s.now}
}

// gone queues a call for a deletion that was not seen.
func (s *shared[T]) gone(last T, revision int64) {
	call := s.call(pending.Delete, last, revision)
	call.Unknown = true
	s.pending = append(s.pending, call)
}

// put and drop change the store. The caller holds its lock.
func (s *shared[T]) put(key string, obj T) {
	s.detector.Stored(key, obj)
	if err := s.store.Put(key, obj); err != nil {
		s.fault("index", err)
	}
}

func (s *shared[T]) drop(key string) {
	s.detector.Dropped(key)
	s.store.Drop(key)
}

// typed returns object as a T. An object of another type is a fault of the source and is left out.
func (s *shared[T]) typed(object Object) (T, bool) {
	obj, ok := object.(T)
	if !ok {
		s.fault("type", fmt.Errorf("following %s: the source sent a %T", s.name, object))
	}
	return obj, ok
}

// transformed returns object after the transform. A transform that fails or panics costs only that
// state of that object.
func (s *shared[T]) transformed(object Object) (result Object, ok bool) {
	obj, ok := s.typed(object)
	if !ok {
		return nil, false
	}
	defer func() {
		if r := recover(); r != nil {
			s.fault("transform", fmt.Errorf("transforming %s: the function panicked: %v", Key(object), r))
			result, ok = nil, false
		}
	}()
	transformed, err := s.transform(obj)
	if err != nil {
		s.fault("transform", fmt.Errorf("transforming %s: %w", Key(object), err))
		return nil, false
	}
	if v := reflect.ValueOf(transformed); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		s.fault("transform", fmt.Errorf("transforming %s: the function returned nil", Key(object)))
		return nil, false
	}
	return transformed, true
}
