// Package backoff computes the delay before a crashing container is restarted.
package backoff

import (
	"sync"
	"time"
)

// The times of Kubernetes' CrashLoopBackOff.
const (
	// Initial is the delay after the second crash; each further crash doubles it.
	Initial = 10 * time.Second
	// Max bounds the delay.
	Max = 5 * time.Minute
	// Reset is how long a container must have run for its delay to start over.
	Reset = 2 * Max
)

type entry struct {
	wait    time.Duration
	updated time.Time
}

// Backoff holds the delays of containers by key. Any goroutine may use it.
type Backoff struct {
	initial, limit, reset time.Duration

	mu      sync.Mutex
	entries map[string]entry
}

// New returns a back-off whose delay starts at initial, doubles up to limit, and starts over after
// reset without a crash.
func New(initial, limit, reset time.Duration) *Backoff {
	return &Backoff{initial: initial, limit: limit, reset: reset, entries: map[string]entry{}}
}

// Remaining returns the remaining delay of key, which ended at ended; 0 when it may start now.
func (b *Backoff) Remaining(key string, ended time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, known := b.entries[key]
	if !known || b.expired(e, ended) {
		return 0
	}
	return max(0, e.wait-time.Since(ended))
}

// Wait returns the current delay of key; 0 if it has none.
func (b *Backoff) Wait(key string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[key].wait
}

// Next records that key, which ended at ended, is being restarted, and so lengthens the delay after
// its next end.
func (b *Backoff) Next(key string, ended time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, known := b.entries[key]
	switch {
	case !known || b.expired(e, ended):
		e.wait = b.initial
	default:
		e.wait = min(2*e.wait, b.limit)
	}
	e.updated = time.Now()
	b.entries[key] = e
}

// Forget drops the keys for which gone is true.
func (b *Backoff) Forget(gone func(key string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key := range b.entries {
		if gone(key) {
			delete(b.entries, key)
		}
	}
}

// expired reports whether a container ran for longer than reset between its last start and its end.
func (b *Backoff) expired(e entry, ended time.Time) bool {
	return ended.Sub(e.updated) > b.reset
}
