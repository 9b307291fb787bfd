package routes

import (
	"context"
	"fmt"
	"time"
)

// goodFor is how long the result of a shared check is reused.
const goodFor = time.Second

// Shared wraps a check that costs something, such as a read of etcd. The check runs only once at a
// time, however many callers wait, and its result is reused for a second. Any goroutine may call
// the returned function.
func Shared(check func(ctx context.Context) error) func(ctx context.Context) error {
	s := &shared{check: check, turn: make(chan struct{}, 1)}
	return s.run
}

type shared struct {
	check func(ctx context.Context) error
	turn  chan struct{} // its holder may use the fields below
	ended time.Time
	err   error
}

func (s *shared) run(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("waiting for another check: %w", ctx.Err())
	}
	defer func() { <-s.turn }()
	if !s.ended.IsZero() && time.Since(s.ended) < goodFor {
		return s.err
	}
	// One caller's disconnect must not fail the check for the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	s.err = s.check(ctx)
	s.ended = time.Now()
	return s.err
}
