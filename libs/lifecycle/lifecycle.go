// Package lifecycle runs a process, or a service in it, as one list of stages. They start in order,
// each when the one before is ready, and end in reverse order. The list is the only place that
// states what needs what.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// patience is after how long a stage that is not ready, or has not ended, is logged, and how often
// it is logged again. Stages have no time limit: each knows best how long it may take.
const patience = 10 * time.Second

// Stage is a step in the life of a process. Each function may be nil. A stage without any is
// skipped, so that a list can have optional stages.
type Stage struct {
	// Name is the stage's name in logs and errors.
	Name string
	// Start prepares the stage. Its context ends when the process is told to end, or when another
	// stage fails. If it returns an error, the stage has not started: it is neither run nor ended.
	Start func(ctx context.Context) error
	// Run runs the stage, after Start. Its context ends after End has returned, when all later
	// stages have ended. If Run returns before that, all stages end. A stage without Run lasts from
	// Start to End.
	Run func(ctx context.Context) error
	// Ready waits until the next stage may start. Its context is like that of Start. Without Ready,
	// a stage is ready as soon as it runs.
	Ready func(ctx context.Context) error
	// End finishes what the stage has begun. Its context ends when a stage fails, since what the
	// stage needs may be gone then.
	End func(ctx context.Context) error
}

// Run runs the stages until ctx ends or one of them fails, and returns when all have ended. It
// returns the errors of all stages. It ignores those of a start that ctx has interrupted, and
// context.Canceled from a stage that was told to end.
func Run(ctx context.Context, log *slog.Logger, stages ...Stage) error {
	l := &life{log: log, interrupted: func() bool { return ctx.Err() != nil }}
	// Stages outlive ctx: each ends after all later ones have.
	whole, cut := context.WithCancel(context.WithoutCancel(ctx))
	starting, stop := context.WithCancel(ctx)
	l.fail = func() { cut(); stop() }
	defer l.fail()

	var started []*running
	for _, stage := range stages {
		if stage.Start == nil && stage.Run == nil && stage.Ready == nil && stage.End == nil {
			continue
		}
		r := l.start(starting, whole, stage)
		if r == nil {
			break
		}
		started = append(started, r)
	}
	<-starting.Done()
	for _, r := range slices.Backward(started) {
		l.end(whole, r)
	}
	return errors.Join(l.errs...)
}

// life is one call of Run.
type life struct {
	log *slog.Logger
	// interrupted reports whether the process was told to end.
	interrupted func() bool
	// fail ends the start, and the patience of the stages that are ending.
	fail func()

	mu   sync.Mutex
	errs []error
}

// failed records an error, after which all stages end. It ignores an error that is already
// recorded: a stage may return the same one from Ready and from Run.
func (l *life) failed(doing string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.ContainsFunc(l.errs, func(known error) bool { return errors.Is(known, err) }) {
		l.errs = append(l.errs, fmt.Errorf("%s: %w", doing, err))
	}
	l.fail()
}

// running is a started stage.
type running struct {
	stage  Stage
	cancel context.CancelFunc
	done   chan struct{} // closed when Run has returned
}

// start starts a stage and waits until it is ready. It returns nil if the stage has not started. It
// ends the start of the process if the stage fails.
func (l *life) start(ctx, whole context.Context, stage Stage) *running {
	if ctx.Err() != nil {
		return nil
	}
	l.log.Info("starting a stage", "stage", stage.Name)
	began := time.Now()
	defer l.nag(notReady, stage.Name, began)()
	if err := call(ctx, stage.Start); err != nil {
		l.startFailed(ctx, stage.Name, err)
		return nil
	}
	life, cancel := context.WithCancel(context.WithoutCancel(whole))
	r := &running{stage: stage, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		l.run(life, stage)
	}()
	switch err := call(ctx, stage.Ready); {
	case err != nil:
		l.startFailed(ctx, "waiting until "+stage.Name+" is ready", err)
	case ctx.Err() == nil:
		l.log.Info("a stage is ready", "stage", stage.Name, "took", since(began))
	}
	return r
}

// startFailed records why a stage did not start, unless ctx has ended: the reason is recorded
// already, or it is no fault.
func (l *life) startFailed(ctx context.Context, doing string, err error) {
	if ctx.Err() == nil {
		l.failed(doing, err)
	}
}

// run runs a stage until ctx ends, and records it if the stage ends before.
func (l *life) run(ctx context.Context, stage Stage) {
	if stage.Run == nil {
		<-ctx.Done()
		return
	}
	err := stage.Run(ctx)
	told := ctx.Err() != nil
	switch {
	case err == nil && (told || l.interrupted()):
	case err == nil:
		l.failed(stage.Name, errEnded)
	case told && errors.Is(err, context.Canceled):
	case told:
		l.failed("ending "+stage.Name, err)
	default:
		l.failed(stage.Name, err)
	}
}

// errEnded is the fault of a stage that returns nil although nothing has told it to end.
var errEnded = errors.New("ended unexpectedly")

// end ends a stage, and returns when it has ended.
func (l *life) end(whole context.Context, r *running) {
	began := time.Now()
	defer l.nag(notEnded, r.stage.Name, began)()
	if err := call(whole, r.stage.End); err != nil && !errors.Is(err, context.Canceled) {
		l.failed("ending "+r.stage.Name, err)
	}
	r.cancel()
	<-r.done
	l.log.Info("a stage has ended", "stage", r.stage.Name, "took", since(began))
}

// late is what a stage that takes long has not done.
type late int

const (
	notReady late = iota
	notEnded
)

// nag logs regularly that a stage takes long, until stop is called.
func (l *life) nag(what late, stage string, began time.Time) (stop func()) {
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(patience)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if what == notReady {
					l.log.Warn("a stage is not ready yet", "stage", stage, "took", since(began))
				} else {
					l.log.Warn("a stage has not ended yet", "stage", stage, "took", since(began))
				}
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-done }
}

func call(ctx context.Context, f func(context.Context) error) error {
	if f == nil {
		return nil
	}
	return f(ctx)
}

func since(began time.Time) time.Duration { return time.Since(began).Round(time.Millisecond) }
