package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Part is a component of a process.
type Part struct {
	// Name is the part's name in logs and errors.
	Name string
	// Run runs the part until its context ends.
	Run func(ctx context.Context) error
	// Ready returns nil when the part is usable, or its context's error. A nil Ready means that the
	// part is usable as soon as it runs.
	Ready func(ctx context.Context) error
}

// RunParts starts the parts one after the other, each when its predecessor is ready. It then calls
// started and runs the parts until ctx ends or one of them ends by itself. Finally it stops them in
// reverse order, each after the part started after it has ended. It returns the error of the part
// that failed; nil if ctx ended.
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
		// Report an error that a part returns when it is stopped, unless it is only the context's
		// error or the failure that stopped the others.
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

// outcome is the result of a part that has ended.
type outcome struct {
	part string
	err  error
}

func (o outcome) failure() error {
	if o.err == nil {
		return fmt.Errorf("%s ended unexpectedly", o.part)
	}
	return fmt.Errorf("%s: %w", o.part, o.err)
}

func start(part Part, ended chan<- outcome) *run {
	// Deliberately not derived from the process's context: parts are stopped in order.
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
