// Package inflight limits how many requests are processed at once, in total and per client, so that
// no client starves the others.
package inflight

import "sync"

// Limiter limits the requests in flight. It is safe for concurrent use.
type Limiter struct {
	total, perClient int

	mu       sync.Mutex
	inFlight int
	of       map[string]int // only clients with requests in flight
}

// New returns a Limiter for at most total requests, of which each client may have at most perClient.
func New(total, perClient int) *Limiter {
	return &Limiter{total: total, perClient: perClient, of: map[string]int{}}
}

// TryAcquire counts one more request of a client, and reports whether the limits allow it. The
// caller must call Release for each request that was allowed.
func (l *Limiter) TryAcquire(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inFlight >= l.total || l.of[client] >= l.perClient {
		return false
	}
	l.inFlight++
	l.of[client]++
	return true
}

// Release ends a request that TryAcquire allowed.
func (l *Limiter) Release(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	if l.of[client]--; l.of[client] == 0 {
		delete(l.of, client)
	}
}
