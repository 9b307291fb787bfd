package informer

import (
	"time"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// Status reports what the informer follows, and how far it and its handlers are behind.
func (s *shared[T]) Status() watcher.Status {
	now := time.Now()
	via, why := s.follower.Via(), s.follower.Why()
	s.mu.Lock()
	defer s.mu.Unlock()
	objects, revision := s.store.Size()
	w := watcher.Status{
		Service: s.service,
		Group:   s.kind.Group, Version: s.kind.Version, Resource: s.kind.Resource,
		View: s.view, Started: s.started.Load(), Synced: s.isSynced, Stopped: s.ended,
		Objects: objects, Revision: revision, Queued: s.queue.Len(),
		Handlers: make([]watcher.Handler, 0, len(s.listeners)),
	}
	w.LagRevisions, w.LagSeconds, w.SilentSeconds = s.progress.Lag(now)
	w.Via, w.Why = via, why
	for _, l := range s.listeners {
		w.Handlers = append(w.Handlers, l.status(now, revision))
	}
	return w
}
