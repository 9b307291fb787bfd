package proxy

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxTriggers bounds the trigger times that are kept of one Service.
const maxTriggers = 16

// source says which objects of a Service have changed.
type source uint8

const (
	ofService source = 1 << iota
	ofSlices
)

// change is what has happened to one Service since the last sync.
type change struct {
	sources source
	// triggers has the times of the changes of pods that led to changes of slices.
	triggers []time.Time
}

// pending collects the Services that have changed. There is one entry for each, however often it
// changes. It is safe for concurrent use.
type pending struct {
	mu      sync.Mutex
	changes map[types.NamespacedName]*change
	// all is true when any Service may have changed.
	all bool
	// wake has a value while there are changes.
	wake    chan struct{}
	metrics *metrics
	// queued is called with the first change after take.
	queued func()
}

func newPending(m *metrics, queued func()) *pending {
	return &pending{changes: make(map[types.NamespacedName]*change), wake: make(chan struct{}, 1), metrics: m, queued: queued}
}

// mark adds a change. trigger may be nil.
func (p *pending) mark(name types.NamespacedName, from source, trigger *time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.changes) == 0 {
		p.queued()
	}
	c := p.changes[name]
	if c == nil {
		c = &change{}
		p.changes[name] = c
	}
	if fresh := from &^ c.sources; fresh != 0 {
		p.metrics.pending(fresh, 1)
	}
	c.sources |= from
	p.metrics.changed(from)
	if trigger != nil && len(c.triggers) < maxTriggers {
		c.triggers = append(c.triggers, *trigger)
	}
	p.signal()
}

// markAll adds a change that may be of any Service.
func (p *pending) markAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all = true
	p.signal()
}

func (p *pending) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// take returns all changes, and whether any Service may have changed, and forgets them.
func (p *pending) take() (taken map[types.NamespacedName]*change, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	taken, all = p.changes, p.all
	p.all = false
	p.changes = make(map[types.NamespacedName]*change)
	p.metrics.nonePending()
	select {
	case <-p.wake:
	default:
	}
	return taken, all
}
