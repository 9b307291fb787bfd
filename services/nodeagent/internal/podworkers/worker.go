package podworkers

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// phase is the phase of a pod's lifecycle.
type phase int

const (
	syncing phase = iota
	terminating
	terminated
	finished
)

// worker holds the state of one pod. Workers.mu guards it.
type worker struct {
	uid string
	// pod is the latest wanted state.
	pod *corev1.Pod
	// kind is the kind of the pending update; pending reports that there is one.
	kind    Kind
	pending bool
	// wake signals pending to the goroutine; it holds one token.
	wake chan struct{}

	phase phase
	// orphan reports that only the runtime knows the pod.
	orphan bool
	// cancel cancels the running step; nil between steps.
	cancel context.CancelFunc
	// grace is the containers' grace period in seconds; set when phase is terminating.
	grace int64
	// kill is what to write to the pod's status; may be nil.
	kill *Kill
	// due is the time of the next sync; zero for never.
	due time.Time
}

// run works on the pod until it is finished or ctx ends.
func (ws *Workers) run(ctx context.Context, w *worker) {
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		if ws.step(ctx, w, &last) {
			return
		}
	}
}

// step works on a pending update and reports whether the pod is finished.
func (ws *Workers) step(ctx context.Context, w *worker, last *time.Time) bool {
	ws.mu.Lock()
	if !w.pending {
		ws.mu.Unlock()
		return false
	}
	ws.mu.Unlock()

	state, err := ws.cfg.Cache.NewerThan(ctx, w.uid, *last)
	if err != nil {
		return false // Only ctx ends the wait.
	}

	ws.mu.Lock()
	w.pending = false
	w.due = time.Time{}
	s := step{phase: w.phase, kind: w.kind, pod: w.pod, grace: w.grace, kill: w.kill, orphan: w.orphan}
	stepCtx, cancel := context.WithCancel(ctx)
	w.cancel = cancel
	ws.mu.Unlock()

	var outcome Outcome
	switch {
	case state.Err != nil:
		err = fmt.Errorf("reading the pod from the runtime: %w", state.Err)
		if !s.orphan {
			ws.cfg.Unread(s.pod, state.Err)
		}
	case s.phase == syncing:
		outcome, err = ws.cfg.Syncer.Sync(stepCtx, s.kind, s.pod, state)
	case s.phase == terminating && s.orphan:
		err = ws.cfg.Syncer.TerminateOrphan(stepCtx, s.pod, state)
	case s.phase == terminating:
		err = ws.cfg.Syncer.Terminate(stepCtx, s.pod, state, s.grace, s.kill)
	default:
		err = ws.cfg.Syncer.Terminated(stepCtx, s.pod, state)
	}
	cancel()
	*last = time.Now()
	return ws.done(ctx, w, s, outcome, err)
}

type step struct {
	phase  phase
	kind   Kind
	pod    *corev1.Pod
	grace  int64
	kill   *Kill
	orphan bool
}

// done records the result of a step, decides what comes next, and reports whether the pod is
// finished.
func (ws *Workers) done(ctx context.Context, w *worker, s step, outcome Outcome, err error) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.cancel = nil
	if ctx.Err() != nil {
		return false
	}
	next := Sync
	switch {
	case err != nil:
		// A step cut short by a kill has not failed; the next step is already pending.
		if !errors.Is(err, context.Canceled) || w.phase == s.phase && !w.pending {
			ws.cfg.Logger.Error("syncing a pod failed", "namespace", s.pod.Namespace, "name", s.pod.Name, "uid", w.uid, "err", err)
		}
		delay := outcome.RetryAfter
		if delay <= 0 {
			delay = ws.cfg.RetryPeriod
		}
		w.due = time.Now().Add(wait.Jitter(delay, jitter))
		if w.phase != s.phase {
			w.due = time.Now()
		}
		return false
	case s.phase == syncing && outcome.Terminal && w.phase == syncing:
		w.phase, w.grace, w.kill = terminating, graceOf(w.pod, outcome.Kill), outcome.Kill
	case s.phase == terminating && w.orphan:
		w.phase = finished
		return true
	case s.phase == terminating:
		w.phase = terminated
	case s.phase == terminated:
		w.phase = finished
		return true
	default:
		delay := ws.cfg.ResyncPeriod
		if outcome.RetryAfter > 0 && outcome.RetryAfter < delay {
			delay = outcome.RetryAfter
		} else {
			delay = wait.Jitter(delay, jitter)
		}
		w.due = time.Now().Add(delay)
		return false
	}
	ws.signal(w, next)
	return false
}

// signal makes an update pending. The caller holds ws.mu.
func (ws *Workers) signal(w *worker, kind Kind) {
	// A pending creation stays one after an update.
	if !w.pending || w.kind != Create {
		w.kind = kind
	}
	w.pending = true
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
