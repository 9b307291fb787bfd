// Package logsample keeps what strangers cause from filling the log.
package logsample

import (
	"sync"
	"time"
)

// Bounds of what a Gate lets through: burst in each period.
const (
	burst  = 10
	period = time.Minute
)

// Gate lets some of what is to be logged through, and counts the rest. It may be used from any
// goroutine; the zero Gate is ready.
type Gate struct {
	mu      sync.Mutex
	began   time.Time
	through int
	held    int
}

// Open says whether one more line may be logged at a time; held is then how many were not since
// the last one that was.
func (g *Gate) Open(now time.Time) (held int, open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.began) >= period {
		g.began, g.through = now, 0
	}
	if g.through >= burst {
		g.held++
		return 0, false
	}
	g.through++
	held, g.held = g.held, 0
	return held, true
}
