// Package lag measures how far a store is behind what is known of its source.
package lag

import (
	"sync"
	"time"
)

// Progress is what an informer knows of its own lag.
type Progress struct {
	mu sync.Mutex
	// known is the newest revision heard of, reached the store's.
	known, reached int64
	// wanted counts the waiting callers by the revision that they wait for.
	wanted map[int64]int
	// heard is when the follower last reported anything. behind is since when reached is not the
	// newest.
	heard, behind time.Time
}

// Know records that a revision exists.
func (p *Progress) Know(revision int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = max(p.known, revision)
	p.judge(now)
}

// Hear records that the follower reported a revision.
func (p *Progress) Hear(revision int64, now time.Time) {
	p.mu.Lock()
	p.heard = now
	p.mu.Unlock()
	p.Know(revision, now)
}

// Want records that a caller waits for a revision, which it assumes to exist, until done is called.
func (p *Progress) Want(revision int64, now time.Time) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted == nil {
		p.wanted = map[int64]int{}
	}
	p.wanted[revision]++
	p.judge(now)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.wanted[revision]--; p.wanted[revision] == 0 {
			delete(p.wanted, revision)
		}
		p.judge(now)
	}
}

// Renew records that the known revision belongs to a history that is over.
func (p *Progress) Renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known = 0
}

// Reach records that the store is at a revision.
func (p *Progress) Reach(revision int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = revision
	p.judge(now)
}

// newest returns the newest revision known to exist.
func (p *Progress) newest() int64 {
	newest := p.known
	for revision := range p.wanted {
		newest = max(newest, revision)
	}
	return newest
}

// judge records whether the store is behind. The caller holds mu.
func (p *Progress) judge(now time.Time) {
	switch {
	case p.newest() <= p.reached:
		p.behind = time.Time{}
	case p.behind.IsZero():
		p.behind = now
	}
}

// Lag returns how far the store is behind, in revisions and seconds, and for how many seconds
// nothing was heard: -1 if nothing ever was.
func (p *Progress) Lag(now time.Time) (revisions int64, seconds, silent float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent = -1
	if !p.heard.IsZero() {
		silent = now.Sub(p.heard).Seconds()
	}
	if p.behind.IsZero() {
		return 0, 0, silent
	}
	return p.newest() - p.reached, now.Sub(p.behind).Seconds(), silent
}
