package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Part is one of the things that a process runs.
type Part struct {
	// Name is what the part is called in logs and errors.
	Name string
	// Run runs the part until its context ends.
	Run func(ctx context.Context) error
	// Ready returns when the part can be used, or with its context's error. Nil means that
	// the part can be used as soon as it runs.
	Ready func(ctx context.Context) error
}

// RunParts starts the parts one after the other, each when the one before it is ready, calls
// started, and runs them until ctx ends or one of them ends by itself. It then stops them in
// reverse order, each after the one that was started after it has ended, and returns the
// error of the part that failed; nil if ctx ended.
func RunParts(ctx context.Context, log *slog.Logger, parts []Part, started func()) error {
	ended := make(chan outcome, len(parts))
	var running []*run
	failure := func() error {
		for _, part := range parts {
			r := start(part, ended)
			running = append(running, r)
			log.Info("part starting", "part", part.Name)
			began := time.Now()
			if err := awaitReady(ctx, r, ended); err != nil {
				return err
			}
			log.Info("part ready", "part", part.Name, "took", time.Since(began).Round(time.Millisecond))
		}
		if started != nil {
			started()
		}
		select {
		case <-ctx.Done():
			return nil
		case end := <-ended:
			return end.failure()
		}
	}()
	if ctx.Err() != nil {
		failure = nil
	}
	var errs []error
	if failure != nil {
		errs = append(errs, failure)
	}
	for _, r := range slices.Backward(running) {
		r.cancel()
		<-r.done
		log.Info("part ended", "part", r.part.Name)
		// An error that a part returns because it was told to stop is worth knowing, unless it
		// is only the context's, or is what made the others stop.
		if err := r.err; err != nil && !errors.Is(err, context.Canceled) && !errors.Is(failure, err) {
			errs = append(errs, fmt.Errorf("stopping %s: %w", r.part.Name, err))
		}
	}
	return errors.Join(errs...)
}

// run is a started part.
type run struct {
	part   Part
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed
}

// outcome tells of a part that has ended.
type outcome struct {
	part string
	err  error
}

func (o outcome) failure() error {
	if o.err == nil {
		return fmt.Errorf("%s ended, though nothing told it to", o.part)
	}
	return fmt.Errorf("%s: %w", o.part, o.err)
}

func start(part Part, ended chan<- outcome) *run {
	// A part outlives the process's context on purpose: it is stopped in its turn.
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{part: part, cancel: cancel, done: make(chan struct{})}
	go func() {
		r.err = part.Run(ctx)
		close(r.done)
		ended <- outcome{part.Name, r.err}
	}()
	return r
}

func awaitReady(ctx context.Context, r *run, ended <-chan outcome) error {
	if r.part.Ready == nil {
		return nil
	}
	waiting, cancel := context.WithCancel(ctx)
	var err error
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		err = r.part.Ready(waiting)
	}()
	select {
	case <-ready:
		cancel()
	case end := <-ended:
		cancel()
		<-ready
		return end.failure()
	}
	if err != nil {
		return fmt.Errorf("waiting until %s is ready: %w", r.part.Name, err)
	}
	return nil
}
