package resourcequota

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// followers are the loops of one term that start while it runs. The zero value is ready for use.
type followers struct {
	mu sync.Mutex
	// early wait for run.
	early []func(ctx context.Context) error
	begin func(f func(ctx context.Context) error)
	ended bool
}

// start makes f part of run, now or when run is called; it does nothing after that.
func (s *followers) start(f func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
	case s.begin == nil:
		s.early = append(s.early, f)
	default:
		s.begin(f)
	}
}

// run runs what is started until ctx ends or a loop fails, and returns when all have returned.
func (s *followers) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	begin := func(f func(context.Context) error) { group.Go(func() error { return f(ctx) }) }
	s.mu.Lock()
	s.begin = begin
	for _, f := range s.early {
		begin(f)
	}
	s.early = nil
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	return group.Wait()
}
