package faultpoint

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Side is when a call is held.
type Side string

// The sides of a call.
const (
	// Before holds the call before the runtime hears of it. It does not reach the runtime at all
	// if its caller leaves meanwhile.
	Before Side = "before"
	// After holds the answer of a call that has taken effect.
	After Side = "after"
	// Late holds the call until its caller has left and the agent has looked at the runtime once
	// more; then it takes effect all the same.
	Late Side = "late"
	// Later is Late after the agent has looked often enough to be done with the pod.
	Later Side = "later"
	// During holds nothing: the test acts while the runtime works on the call.
	During Side = "during"
)

// How long a released call waits for what need not come: its caller leaving, a list.
const (
	leaves = 500 * time.Millisecond
	lists  = 3 * time.Second
	// patience is longer than the agent waits for a call of a pod that is to end.
	patience = 15 * time.Second
)

// looks is how often the agent looks at the runtime before a call of side Later.
const looks = 4

// Trap holds the first call at its point.
type Trap struct {
	point Point
	side  Side
	// sprung says that the call has come; Proxy.mu guards it.
	sprung  bool
	reached chan struct{}
	release chan struct{}
	done    chan struct{}
	lost    bool
}

// Set sets a trap, in place of the one before.
func (p *Proxy) Set(point Point, side Side) *Trap {
	trap := &Trap{point: point, side: side, reached: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = trap
	return trap
}

// Reached is closed when the call is held.
func (t *Trap) Reached() <-chan struct{} { return t.reached }

// Done is closed when the call has had its effect, if any, and was answered.
func (t *Trap) Done() <-chan struct{} { return t.done }

// Release lets the call go on.
func (t *Trap) Release() { close(t.release) }

// Lose lets the call go as the death of the runtime does: its caller gets no answer, and if it
// had no effect yet it has none.
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
	// A runtime goes on with what its caller no longer waits for.
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

// looks is how many lists the call waits for.
func (t *Trap) looks(left bool) int {
	switch {
	case left && t.side == Late:
		return 1
	case left && t.side == Later:
		return looks
	}
	return 0
}

// wait tells the test that the call is held, and waits for its word.
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
