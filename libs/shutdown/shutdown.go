// Package shutdown ends a service in order: what needs something ends before what it needs, and
// each step is a line in the log that says how long it took.
package shutdown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Steps logs how an ending goes on, a line a step.
type Steps struct {
	log   *slog.Logger
	began time.Time
}

// NewSteps begins now.
func NewSteps(log *slog.Logger) *Steps { return &Steps{log: log, began: time.Now()} }

// Done logs that a step has been done, and how long it took since the one before.
func (s *Steps) Done(step string, more ...any) {
	now := time.Now()
	s.log.Info("shutting down", append([]any{"done", step, "took", now.Sub(s.began).Round(time.Millisecond)}, more...)...)
	s.began = now
}

// Stage is a part of a service.
type Stage struct {
	// Ended is what is logged when the stage has ended: "the informers have ended".
	Ended string
	// Run runs the stage until its context ends.
	Run func(ctx context.Context) error
}

// Run runs the stages, which all start at once, until ctx ends or one of them does. Then they are
// ended in their order, each when the one before it has. It returns what went wrong; a stage's
// word that it was told to end is none.
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
