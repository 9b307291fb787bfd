// Package backoff says how long to wait before a crashing container is started again.
package backoff

import (
	"sync"
	"time"
)

// The times of Kubernetes' CrashLoopBackOff.
const (
	// Initial is the wait after the second crash; it doubles with each more.
	Initial = 10 * time.Second
	// Max bounds the wait.
	Max = 5 * time.Minute
	// Reset is how long a container must have run for its wait to begin anew.
	Reset = 2 * Max
)

type entry struct {
	wait    time.Duration
	updated time.Time
}

// Backoff keeps the waits of containers by key. It may be used from any goroutine.
type Backoff struct {
	initial, limit, reset time.Duration

	mu      sync.Mutex
	entries map[string]entry
}

// New makes a back-off whose first wait is initial, which doubles up to limit, and begins
// anew after reset without a crash.
func New(initial, limit, reset time.Duration) *Backoff {
	return &Backoff{initial: initial, limit: limit, reset: reset, entries: map[string]entry{}}
}

// Remaining is how long key still has to wait, given when it last ended; 0 when it may start
// now.
func (b *Backoff) Remaining(key string, ended time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, known := b.entries[key]
	if !known || b.expired(e, ended) {
		return 0
	}
	return max(0, e.wait-time.Since(ended))
}

// Wait is the present wait of key; 0 if it has none.
func (b *Backoff) Wait(key string) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.entries[key].wait
}

// Next records that key, which last ended at ended, is started again, and so lengthens the
// wait after its next end.
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

// expired says that a container ran long enough, from its last start to its end, to be
// forgiven.
func (b *Backoff) expired(e entry, ended time.Time) bool {
	return ended.Sub(e.updated) > b.reset
}
