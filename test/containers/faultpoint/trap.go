package faultpoint

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Side is the moment at which a call is held.
type Side string

// The sides of a call.
const (
	// Before holds the call before the runtime receives it. If its caller leaves meanwhile, the
	// runtime never receives it.
	Before Side = "before"
	// After holds the response of a call that has taken effect.
	After Side = "after"
	// Late holds the call until its caller has left and the agent has looked at the runtime once
	// more; then the call takes effect anyway.
	Late Side = "late"
	// Later is like Late, but waits until the agent has looked often enough to be done with the
	// pod.
	Later Side = "later"
	// During holds nothing: the test acts while the runtime executes the call.
	During Side = "during"
)

// Limits for waiting, after a release, for events that need not happen: the caller leaving, a list.
const (
	leaves = 500 * time.Millisecond
	lists  = 3 * time.Second
	// patience is longer than the agent waits for a call of a pod that is to terminate.
	patience = 15 * time.Second
)

// looks is how often the agent looks at the runtime before a call of side Later.
const looks = 4

// Trap holds the first call at its point.
type Trap struct {
	point Point
	side  Side
	// sprung means that the call has arrived; Proxy.mu guards it.
	sprung  bool
	reached chan struct{}
	release chan struct{}
	done    chan struct{}
	lost    bool
}

// Set sets a trap, which replaces the previous one.
func (p *Proxy) Set(point Point, side Side) *Trap {
	trap := &Trap{point: point, side: side, reached: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = trap
	return trap
}

// Reached is closed when the call is held.
func (t *Trap) Reached() <-chan struct{} { return t.reached }

// Done is closed when the call has taken its effect, if any, and was answered.
func (t *Trap) Done() <-chan struct{} { return t.done }

// Release lets the call continue.
func (t *Trap) Release() { close(t.release) }

// Lose ends the call as if the runtime had died: its caller gets no response, and a call without an
// effect so far has none.
func (t *Trap) Lose() {
	t.lost = true
	close(t.release)
}

type answer struct {
	frame *frame
	err   error
}

func (t *Trap) hold(ctx context.Context, p *Proxy, forward func(context.Context) (*frame, error)) (*frame, error) {
	defer close(t.done)
	// A runtime finishes calls even if their callers no longer wait.
	detached := context.WithoutCancel(ctx)
	var got *frame
	var err error
	switch t.side {
	case Before, Late, Later:
		t.wait(p)
		if t.lost {
			return nil, lost()
		}
		limit := leaves
		if t.side == Later {
			limit = patience
		}
		waitFor(ctx.Done(), limit, p)
		left := ctx.Err() != nil
		if t.side == Before && left {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		for range t.looks(left) {
			waitFor(p.nextList(), lists, p)
		}
		got, err = forward(detached)
	case During:
		asked := make(chan answer, 1)
		go func() {
			f, err := forward(detached)
			asked <- answer{f, err}
		}()
		t.wait(p)
		a := <-asked
		return a.frame, a.err
	default:
		got, err = forward(detached)
		t.wait(p)
		if t.lost {
			return nil, lost()
		}
		waitFor(ctx.Done(), leaves, p)
	}
	return got, err
}

// looks returns the number of lists that the call waits for.
func (t *Trap) looks(left bool) int {
	switch {
	case left && t.side == Late:
		return 1
	case left && t.side == Later:
		return looks
	}
	return 0
}

// wait signals to the test that the call is held, and waits for the release.
func (t *Trap) wait(p *Proxy) {
	close(t.reached)
	select {
	case <-t.release:
	case <-p.ended:
	}
}

func lost() error { return status.Error(codes.Unavailable, "the runtime died") }

func waitFor(what <-chan struct{}, limit time.Duration, p *Proxy) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-what:
	case <-timer.C:
	case <-p.ended:
	}
}
