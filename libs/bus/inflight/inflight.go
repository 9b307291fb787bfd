// Package inflight limits how many requests are processed at once, in total and per client, so that
// no client starves the others.
package inflight

import "sync"

// Places are the slots for requests in flight. They are safe for concurrent use.
type Places struct {
	all, each int

	mu    sync.Mutex
	taken int
	by    map[string]int // only clients that hold a slot
}

// New returns slots for all requests in total, of which each client may hold at most each.
func New(all, each int) *Places { return &Places{all: all, each: each, by: map[string]int{}} }

// Take takes a slot for a client and reports whether there was one. Leave gives it back.
func (p *Places) Take(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.all || p.by[client] >= p.each {
		return false
	}
	p.taken++
	p.by[client]++
	return true
}

// Leave gives back a slot that Take took.
func (p *Places) Leave(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[client]--; p.by[client] == 0 {
		delete(p.by, client)
	}
}
