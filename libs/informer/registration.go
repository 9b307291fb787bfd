package informer

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/informer/internal/pending"
)

// minimumResync is the shortest resync period; shorter ones are raised to it.
const minimumResync = time.Second

// AddEventHandler adds a handler that is resynced in the informer's period.
func (s *shared[T]) AddEventHandler(handler ResourceEventHandler[T]) (Registration, error) {
	return s.AddEventHandlerWithOptions(handler, HandlerOptions{ResyncPeriod: s.resyncPeriod})
}

// AddEventHandlerWithOptions adds a handler.
func (s *shared[T]) AddEventHandlerWithOptions(handler ResourceEventHandler[T], opts HandlerOptions) (Registration, error) {
	if handler == nil {
		return nil, fmt.Errorf("adding a handler of %s: the handler is nil", s.name)
	}
	name := handlerName(opts.Name, handler)
	l := &listener[T]{
		handler:   handler,
		name:      name,
		of:        s.String(),
		resync:    opts.ResyncPeriod,
		buffer:    pending.New[T](cmp.Or(opts.Backlog, s.backlog)),
		logger:    opts.Logger,
		coalesced: s.metrics.Coalesced.WithLabelValues(s.service, s.name, name),
		panics:    s.metrics.Faults.WithLabelValues(s.service, s.name, "panic"),
		ended:     make(chan struct{}),
		returned:  make(chan struct{}),
		synced:    make(chan struct{}),
	}
	l.filled = sync.NewCond(&l.mu)
	if l.logger == nil {
		l.logger = s.logger
	}
	if l.resync > 0 {
		l.resync = max(l.resync, minimumResync)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, fmt.Errorf("adding a handler of %s: %w", s.name, ErrStopped)
	}
	s.listeners = append(s.listeners, l)
	if s.isSynced {
		objects, revision := s.store.View()
		l.initial(pending.Each(pending.InitialAdd, objects, revision))
	}
	if s.started.Load() {
		s.listen(l)
	}
	return l, nil
}

// RemoveEventHandler ends the calls of a handler.
func (s *shared[T]) RemoveEventHandler(registration Registration) error {
	_, err := s.remove(registration)
	return err
}

// ShutDownEventHandler ends the calls of a handler and waits until it has returned.
func (s *shared[T]) ShutDownEventHandler(registration Registration) error {
	l, err := s.remove(registration)
	if err == nil && isClosed(l.ended) {
		<-l.returned
	}
	return err
}

// remove ends a listener if it belongs to this informer.
func (s *shared[T]) remove(registration Registration) (*listener[T], error) {
	l, ok := registration.(*listener[T])
	if !ok {
		return nil, fmt.Errorf("removing a handler of %s: a %T is not a registration of this informer", s.name, registration)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if place := slices.Index(s.listeners, l); place >= 0 {
		s.listeners = slices.Delete(s.listeners, place, place+1)
		l.end()
	}
	return l, nil
}

// listen starts a listener. The caller holds mu, and the informer has started and not ended.
func (s *shared[T]) listen(l *listener[T]) {
	if !l.start() {
		return
	}
	s.running.Go(l.run)
	if l.resync > 0 {
		s.running.Go(func() { s.resyncLoop(l) })
	}
}

func (s *shared[T]) resyncLoop(l *listener[T]) {
	ticker := time.NewTicker(l.resync)
	defer ticker.Stop()
	for {
		select {
		case <-l.ended:
			return
		case <-ticker.C:
			s.resync(l)
		}
	}
}

// resync queues every object for the handler again, unless the handler has not finished its
// previous resync.
func (s *shared[T]) resync(l *listener[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isSynced || !l.startResync() {
		return
	}
	objects, revision := s.store.View()
	if len(objects) == 0 {
		l.resyncDone()
		return
	}
	l.add(pending.Each(pending.Resync, objects, revision))
}

// handlers returns the checkers of all registered handlers.
func (s *shared[T]) handlers() []DoneChecker {
	s.mu.Lock()
	defer s.mu.Unlock()
	checkers := make([]DoneChecker, 0, len(s.listeners))
	for _, l := range s.listeners {
		checkers = append(checkers, l.HasSyncedChecker())
	}
	return checkers
}
