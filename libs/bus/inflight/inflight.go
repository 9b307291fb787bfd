// Package inflight bounds how many requests are worked on at once, in all and of each who asks, so
// that nobody keeps the others from being answered.
package inflight

import "sync"

// Places are the places for requests in work. They may be used from any goroutine.
type Places struct {
	all, each int

	mu    sync.Mutex
	taken int
	by    map[string]int // only of those who have any
}

// New makes places for all requests, of which each who asks has at most each.
func New(all, each int) *Places { return &Places{all: all, each: each, by: map[string]int{}} }

// Take takes a place for who asks; false if there is none for him. Leave gives it back.
func (p *Places) Take(who string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.all || p.by[who] >= p.each {
		return false
	}
	p.taken++
	p.by[who]++
	return true
}

// Leave gives back a place that Take gave.
func (p *Places) Leave(who string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[who]--; p.by[who] == 0 {
		delete(p.by, who)
	}
}
