package routes

import (
	"context"
	"fmt"
	"time"
)

// goodFor is how long the result of a shared check is good.
const goodFor = time.Second

// Shared makes of a check that costs something, such as a read of etcd, one that is run once at a
// time however many ask, and whose result is good for a second. It may be used from any goroutine.
func Shared(check func(ctx context.Context) error) func(ctx context.Context) error {
	s := &shared{check: check, turn: make(chan struct{}, 1)}
	return s.run
}

type shared struct {
	check func(ctx context.Context) error
	turn  chan struct{} // who has it may use the rest
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
	// That one who asks is gone says nothing to the others.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	s.err = s.check(ctx)
	s.ended = time.Now()
	return s.err
}
