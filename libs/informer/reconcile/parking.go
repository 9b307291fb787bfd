package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// parking holds keys whose caches do not show the last write for them, so that no worker waits for
// a cache. A key leaves it once: by take, or by the call of freed when the cache has caught up or
// the time has passed.
type parking[K comparable] struct {
	// freed is called for a key that has left, with an error if the cache is still behind.
	freed func(ctx context.Context, p *parked[K], err error)

	mu    sync.Mutex
	keys  map[K]*parked[K]
	lines map[cache]*line[K]
	// waiters counts the goroutines, one for each line.
	waiters sync.WaitGroup
}

// parked is a key that waits for a cache.
type parked[K comparable] struct {
	key      K
	priority int
	// record is what was written for the key.
	record *written
	// revision is what the cache must reach, before until.
	revision int64
	since    time.Time
	until    time.Time
	// queued is how long the key had waited for a worker before.
	queued time.Duration
}

// line holds the keys that wait for one cache. Apart from take, only the goroutine of the line
// removes keys from it, and the line from parking.lines.
type line[K comparable] struct {
	keys map[*parked[K]]struct{}
	// revision and until are the lowest and the earliest of all keys: what the goroutine waits for
	// now.
	revision int64
	until    time.Time
	// again ends that wait, so that the goroutine checks the line again.
	again context.CancelFunc
}

// park parks a key until a cache has reached p.revision, or until p.until. A key that is already
// parked stays as it is, with the higher of both priorities.
func (g *parking[K]) park(ctx context.Context, p *parked[K], on cache) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.keys[p.key]; old != nil {
		old.priority = max(old.priority, p.priority)
		return
	}
	if g.keys == nil {
		g.keys, g.lines = map[K]*parked[K]{}, map[cache]*line[K]{}
	}
	g.keys[p.key] = p
	l := g.lines[on]
	if l == nil {
		l = &line[K]{keys: map[*parked[K]]struct{}{p: {}}}
		g.lines[on] = l
		g.waiters.Go(func() { g.attend(ctx, on, l) })
		return
	}
	l.keys[p] = struct{}{}
	if l.again != nil && (p.revision < l.revision || p.until.Before(l.until)) {
		l.again()
	}
}

// take removes and returns a parked key; nil if it is not parked.
func (g *parking[K]) take(key K) *parked[K] {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.keys[key]
	delete(g.keys, key)
	return p
}

// attend waits for a cache while keys do, or until ctx ends.
func (g *parking[K]) attend(ctx context.Context, on cache, l *line[K]) {
	for ctx.Err() == nil {
		wait, cancel := g.next(ctx, on, l)
		if wait == nil {
			return
		}
		err := on.WaitForRevision(wait, l.revision)
		stopped := err != nil && wait.Err() == nil
		cancel()
		if ctx.Err() != nil {
			return
		}
		for p, err := range g.leave(on, l, stopped, err) {
			g.freed(ctx, p, err)
		}
	}
}

// next sets the revision of the line to wait for, and returns the context of that wait. The context
// is nil, and the line is removed, if no key waits.
func (g *parking[K]) next(ctx context.Context, on cache, l *line[K]) (context.Context, context.CancelFunc) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first := true
	for p := range l.keys {
		if g.keys[p.key] != p {
			delete(l.keys, p) // It was taken.
			continue
		}
		if first || p.revision < l.revision {
			l.revision = p.revision
		}
		if first || p.until.Before(l.until) {
			l.until = p.until
		}
		first = false
	}
	if first {
		delete(g.lines, on)
		return nil, nil
	}
	wait, cancel := context.WithDeadline(ctx, l.until)
	l.again = cancel
	return wait, cancel
}

// leave removes and returns the keys of a line whose wait has ended; all keys if the cache has
// stopped.
func (g *parking[K]) leave(on cache, l *line[K], stopped bool, err error) map[*parked[K]]error {
	now, revision := time.Now(), on.Revision()
	left := map[*parked[K]]error{}
	g.mu.Lock()
	defer g.mu.Unlock()
	for p := range l.keys {
		switch {
		case g.keys[p.key] != p:
			continue // next removes it.
		case revision >= p.revision:
			left[p] = nil
		case stopped:
			left[p] = fmt.Errorf("waiting for the cache to show the last write: %w", err)
		case !now.Before(p.until):
			left[p] = fmt.Errorf("waiting for the cache to show the last write: at revision %d, not %d, after %v",
				revision, p.revision, now.Sub(p.since))
		default:
			continue
		}
		delete(l.keys, p)
		delete(g.keys, p.key)
	}
	return left
}
