// Package shutdown shuts a service down in order: each stage ends before those that it depends on,
// and the log has a line for each step with its duration.
package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Steps logs the steps of a shutdown, one line each.
type Steps struct {
	log   *slog.Logger
	began time.Time
}

// NewSteps returns Steps that start timing now.
func NewSteps(log *slog.Logger) *Steps { return &Steps{log: log, began: time.Now()} }

// Done logs that a step is done, and how long it took since the previous one.
func (s *Steps) Done(step string, more ...any) {
	now := time.Now()
	s.log.Info("shutting down", append([]any{"done", step, "took", now.Sub(s.began).Round(time.Millisecond)}, more...)...)
	s.began = now
}

// Stage is a part of a service.
type Stage struct {
	// Ended is the text logged when the stage has ended: "the informers have ended".
	Ended string
	// Run runs the stage until its context ends.
	Run func(ctx context.Context) error
}

// Run starts all stages at once and runs them until ctx ends or one of them does. Then it stops
// them in order, each after its predecessor has ended. It returns the errors of the stages, except
// context.Canceled from a stopped stage.
func Run(ctx context.Context, log *slog.Logger, stages ...Stage) error {
	begun, end := context.WithCancel(ctx)
	defer end()
	errs, ended, stops := make([]error, len(stages)), make([]chan struct{}, len(stages)), make([]context.CancelFunc, len(stages))
	var all sync.WaitGroup
	for i, stage := range stages {
		life, stop := context.WithCancel(context.WithoutCancel(ctx))
		ended[i], stops[i] = make(chan struct{}), stop
		all.Go(func() {
			defer close(ended[i])
			defer end()
			err := stage.Run(life)
			if err != nil && (life.Err() == nil || !errors.Is(err, context.Canceled)) {
				errs[i] = err
			}
		})
	}
	<-begun.Done()
	steps := NewSteps(log)
	for i, stage := range stages {
		stops[i]()
		<-ended[i]
		steps.Done(stage.Ended)
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("running in stages: %w", err)
	}
	return nil
}
