package informer

import (
	"fmt"
	"strconv"

	"github.com/garboard/garboard/libs/trace"
)

// Replace says that the view holds exactly these objects at revision. The store is replaced
// first; then handlers are told of what is gone, then of what is new or differs.
func (s *shared[T]) Replace(objects []Object, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.store.mu.Lock()
	present := make(map[string]struct{}, len(objects))
	var gone, come []notification[T]
	for _, object := range objects {
		obj, ok := s.typed(object)
		if !ok {
			if object != nil {
				present[Key(object)] = struct{}{} // It is there, though it cannot be shown.
			}
			continue
		}
		key := Key(obj)
		present[key] = struct{}{}
		old, known := s.store.objects[key]
		switch {
		case !known:
			come = append(come, notification[T]{what: noticeAdd, obj: obj})
		case old.GetUID() != obj.GetUID():
			gone = append(gone, lost(key, old))
			come = append(come, notification[T]{what: noticeAdd, obj: obj})
		case old.GetResourceVersion() != obj.GetResourceVersion():
			come = append(come, notification[T]{what: noticeUpdate, old: old, obj: obj})
		default:
			continue
		}
		s.store.put(key, obj)
	}
	for key, old := range s.store.objects {
		if _, there := present[key]; !there {
			gone = append(gone, lost(key, old))
			s.store.drop(key)
		}
	}
	s.store.revision = revision
	count := len(s.store.objects)
	s.store.mu.Unlock()

	s.tell(gone)
	if s.isSynced {
		s.tell(come)
	} else {
		// Nothing was told before the first whole view, so that all there is, is new.
		s.isSynced = true
		initial := s.store.List()
		for _, l := range s.listeners {
			l.initial(initial)
		}
		close(s.synced)
	}
	s.advance(revision, count, len(gone)+len(come))
	for _, n := range gone {
		s.hop(n.deleted.OptionalObj, revision, "gone from the whole view")
	}
	for _, n := range come {
		at := revision
		if rv, err := strconv.ParseInt(n.obj.GetResourceVersion(), 10, 64); err == nil {
			at = rv
		}
		s.hop(n.obj, at, "whole view")
	}
}

// Apply says that these changes, in order, lead to revision.
func (s *shared[T]) Apply(changes []Change, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.store.mu.Lock()
	notifications := make([]notification[T], 0, len(changes))
	for i := range changes {
		notifications = s.change(notifications, &changes[i])
	}
	s.store.revision = revision
	count := len(s.store.objects)
	s.store.mu.Unlock()

	s.tell(notifications)
	s.advance(revision, count, len(notifications))
	if s.trace == nil {
		return
	}
	for i := range changes {
		c := &changes[i]
		detail := "put"
		if c.Deleted {
			detail = "deleted"
		}
		s.trace.Record(trace.Hop{
			Service: s.service, Step: trace.Informer, Resource: s.kind.Resource,
			Namespace: c.Namespace, Name: c.Name, UID: c.UID, Revision: c.Revision, Detail: detail,
		})
	}
}

// change applies one change and adds what handlers are owed. The caller holds both locks.
func (s *shared[T]) change(to []notification[T], c *Change) []notification[T] {
	key := KeyOf(c.Namespace, c.Name)
	old, known := s.store.objects[key]
	if c.Deleted {
		deleted := DeletedObject[T]{Key: key, OptionalObj: old}
		if c.Object != nil {
			if last, ok := s.typed(c.Object); ok {
				deleted.OptionalObj, known = last, true
			}
		}
		if !known {
			return to // Created and deleted between two statements: nobody knew of it.
		}
		s.store.drop(key)
		return append(to, notification[T]{what: noticeDelete, deleted: deleted})
	}
	obj, ok := s.typed(c.Object)
	if !ok {
		return to
	}
	s.store.put(key, obj)
	switch {
	case !known:
		return append(to, notification[T]{what: noticeAdd, obj: obj})
	case old.GetUID() != obj.GetUID():
		return append(to, lost(key, old), notification[T]{what: noticeAdd, obj: obj})
	default:
		return append(to, notification[T]{what: noticeUpdate, old: old, obj: obj})
	}
}

// lost is the notification of a deletion that was not seen.
func lost[T Object](key string, last T) notification[T] {
	return notification[T]{what: noticeDelete, deleted: DeletedObject[T]{
		Key: key, OptionalObj: last, FinalStateUnknown: true,
	}}
}

// typed is object as a T. One that is none is a fault of the source, and is left out.
func (s *shared[T]) typed(object Object) (T, bool) {
	obj, ok := object.(T)
	if !ok {
		s.fault("type", fmt.Errorf("following %s: the source gave a %T", s.name, object))
	}
	return obj, ok
}

// tell queues notifications for every listener. The caller holds mu.
func (s *shared[T]) tell(notifications []notification[T]) {
	for _, l := range s.listeners {
		l.add(notifications...)
	}
}

// advance wakes those who wait for a revision. The caller holds mu.
func (s *shared[T]) advance(revision int64, objects, changes int) {
	close(s.moved)
	s.moved = make(chan struct{})
	s.metrics.objects.WithLabelValues(s.service, s.name).Set(float64(objects))
	s.metrics.revision.WithLabelValues(s.service, s.name).Set(float64(revision))
	s.metrics.changes.WithLabelValues(s.service, s.name).Add(float64(changes))
}

func (s *shared[T]) hop(obj T, revision int64, detail string) {
	if s.trace == nil {
		return
	}
	s.trace.Record(trace.Hop{
		Service: s.service, Step: trace.Informer, Resource: s.kind.Resource,
		Namespace: obj.GetNamespace(), Name: obj.GetName(), UID: string(obj.GetUID()),
		Revision: revision, Detail: detail,
	})
}
