// Package lag counts how far a store is behind what is known of its source.
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
	// heard is when the follower last spoke, behind since when known is above reached.
	heard, behind time.Time
}

// Know says that there is a revision.
func (p *Progress) Know(revision int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if revision > p.known {
		p.known = revision
	}
	if p.known > p.reached && p.behind.IsZero() {
		p.behind = now
	}
}

// Hear says that the follower spoke, of a revision.
func (p *Progress) Hear(revision int64, now time.Time) {
	p.mu.Lock()
	p.heard = now
	p.mu.Unlock()
	p.Know(revision, now)
}

// Reach says that the store is at a revision.
func (p *Progress) Reach(revision int64, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reached = revision
	switch {
	case p.known <= p.reached:
		p.behind = time.Time{}
	case p.behind.IsZero():
		p.behind = now
	}
}

// Lag is by how much, in revisions and seconds, and for how many seconds nothing was
// heard, -1 if nothing ever was.
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
	return p.known - p.reached, now.Sub(p.behind).Seconds(), silent
}
