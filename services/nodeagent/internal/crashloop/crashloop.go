// Package crashloop computes the delay before a crashing container is restarted.
package crashloop

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/garboard/garboard/libs/backoff"
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
	delays  wait.Backoff
	delay   time.Duration
	updated time.Time
}

// Delays holds the delays of containers by key. Any goroutine may use it.
type Delays struct {
	initial, limit, reset time.Duration

	mu      sync.Mutex
	entries map[string]entry
}

// New returns Delays that start at initial, double up to limit, and start over after reset without
// a crash.
func New(initial, limit, reset time.Duration) *Delays {
	return &Delays{initial: initial, limit: limit, reset: reset, entries: map[string]entry{}}
}

// Remaining returns the remaining delay of key, which ended at ended; 0 when it may start now.
func (d *Delays) Remaining(key string, ended time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, known := d.entries[key]
	if !known || d.expired(e, ended) {
		return 0
	}
	return max(0, e.delay-time.Since(ended))
}

// Current returns the current delay of key; 0 if it has none.
func (d *Delays) Current(key string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.entries[key].delay
}

// Next records that key, which ended at ended, is being restarted, and so lengthens the delay after
// its next end.
func (d *Delays) Next(key string, ended time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, known := d.entries[key]
	if !known || d.expired(e, ended) {
		e.delays = backoff.Doubling(d.initial, d.limit, 0)
	}
	e.delay, e.updated = e.delays.Step(), time.Now()
	d.entries[key] = e
}

// Forget drops the keys for which gone is true.
func (d *Delays) Forget(gone func(key string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key := range d.entries {
		if gone(key) {
			delete(d.entries, key)
		}
	}
}

// expired reports whether a container ran for longer than reset between its last start and its end.
func (d *Delays) expired(e entry, ended time.Time) bool {
	return ended.Sub(e.updated) > d.reset
}
