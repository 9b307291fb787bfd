// Package logsample keeps untrusted clients from flooding the log.
package logsample

import (
	"sync"
	"time"
)

// Limits of what a Gate lets through: burst lines in each period.
const (
	burst  = 10
	period = time.Minute
)

// Gate lets some log lines through and counts the rest. It is safe for concurrent use; the zero
// Gate is ready to use.
type Gate struct {
	mu      sync.Mutex
	began   time.Time
	through int
	held    int
}

// Open reports whether one more line may be logged at now. If so, held is the number of lines
// suppressed since the last one that was logged.
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
