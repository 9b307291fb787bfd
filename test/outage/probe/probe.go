// Package probe measures for how long a deployment is unusable.
package probe

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Probe is one way to use a deployment, tried repeatedly.
type Probe struct {
	// Name is the name of what is tried.
	Name string
	// Every is the pause between two tries of a prober; Timeout bounds a try.
	Every, Timeout time.Duration
	// Probers is the number of concurrent, independent probers.
	Probers int
	// Try uses the deployment once; prober is the number of the prober.
	Try func(ctx context.Context, prober int) error

	mu        sync.Mutex
	began     time.Time
	successes []time.Time // when each ended
	latest    time.Time   // start of the successful try that started last
	failures  int
	last      error
}

// Run tries until ctx ends.
func (p *Probe) Run(ctx context.Context) error {
	p.Mark()
	var group errgroup.Group
	for i := range p.Probers {
		group.Go(func() error {
			for ctx.Err() == nil {
				p.try(ctx, i)
				select {
				case <-ctx.Done():
				case <-time.After(p.Every):
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (p *Probe) try(ctx context.Context, prober int) {
	bounded, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	began := time.Now()
	err := p.Try(bounded, prober)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.successes = append(p.successes, time.Now())
		if began.After(p.latest) {
			p.latest = began
		}
	case ctx.Err() == nil:
		p.failures++
		p.last = err
	}
}

// Mark starts a new measurement.
func (p *Probe) Mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began, p.successes, p.failures, p.last = time.Now(), nil, 0, nil
}

// Outage is the result of a measurement since Mark.
type Outage struct {
	// Longest is the longest time in which no try succeeded, up to now.
	Longest time.Duration
	// Tries and Failures are counts; Last is the latest failure.
	Tries, Failures int
	Last            error
}

// Outage returns the measurement since Mark.
func (p *Probe) Outage() Outage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Outage{
		Longest: longest(p.began, p.successes, time.Now()),
		Tries:   len(p.successes) + p.failures, Failures: p.failures, Last: p.last,
	}
}

// Well reports whether a try that started after the given time has succeeded. A try that started
// earlier may have succeeded with state that a fault then removed.
func (p *Probe) Well(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.latest.After(since)
}

// longest returns the longest pause between successes.
func longest(began time.Time, successes []time.Time, now time.Time) time.Duration {
	var most time.Duration
	before := began
	for _, at := range append(slices.Clone(successes), now) {
		most = max(most, at.Sub(before))
		before = at
	}
	return most
}
