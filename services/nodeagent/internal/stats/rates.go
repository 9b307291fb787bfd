package stats

import (
	"sync"
	"time"
)

// rates computes how much CPU is used from the two last samples of the time used. Any goroutine may use it.
type rates struct {
	mu      sync.Mutex
	samples map[string]sample
}

type sample struct {
	at    time.Time
	total uint64
	rate  *uint64 // billionths of a core; nil before the second sample
}

// replace records a round of samples by their keys, and forgets what is not in it.
func (r *rates) replace(round map[string]sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, now := range round {
		before, ok := r.samples[key]
		took := now.at.Sub(before.at)
		switch {
		case !ok || now.total < before.total: // New, or started again.
		case took <= 0:
			now = before
		default:
			rate := uint64(float64(now.total-before.total) / took.Seconds())
			now.rate = &rate
		}
		round[key] = now
	}
	r.samples = round
}

// of returns the rate for a key in billionths of a core; nil if there were not two samples.
func (r *rates) of(key string) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rate := r.samples[key].rate; rate != nil {
		found := *rate
		return &found
	}
	return nil
}
