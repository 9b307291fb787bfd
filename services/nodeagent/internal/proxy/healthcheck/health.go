package healthcheck

import (
	"sync"
	"time"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// Health knows whether the rules follow the API. It is safe for concurrent use.
type Health struct {
	timeout time.Duration

	mu      sync.Mutex
	updated map[ruleset.Family]time.Time
	// queued has the time since which a change waits.
	queued map[ruleset.Family]time.Time
}

// NewHealth returns the health of a proxy that is unhealthy once a change has waited for timeout.
func NewHealth(timeout time.Duration) *Health {
	return &Health{timeout: timeout, updated: make(map[ruleset.Family]time.Time), queued: make(map[ruleset.Family]time.Time)}
}

// Queued records that a change of a family waits.
func (h *Health) Queued(f ruleset.Family) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, waits := h.queued[f]; !waits {
		h.queued[f] = time.Now()
	}
}

// Updated records that the rules of a family are what they should be.
func (h *Health) Updated(f ruleset.Family) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.queued, f)
	h.updated[f] = time.Now()
}

// familyStatus is the health of a family, as the API of the health port has it.
type familyStatus struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// status is the body of /healthz and /livez.
type status struct {
	LastUpdated  time.Time               `json:"lastUpdated"`
	CurrentTime  time.Time               `json:"currentTime"`
	NodeEligible *bool                   `json:"nodeEligible,omitempty"`
	Healthy      bool                    `json:"healthy"`
	Status       map[string]familyStatus `json:"status,omitempty"`
}

func (h *Health) status() status {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := status{CurrentTime: time.Now(), Healthy: true, Status: make(map[string]familyStatus)}
	for family, updated := range h.updated {
		queued, waits := h.queued[family]
		healthy := !waits || s.CurrentTime.Sub(queued) < h.timeout
		s.Healthy = s.Healthy && healthy
		s.Status[family.String()] = familyStatus{updated, healthy}
		if updated.After(s.LastUpdated) {
			s.LastUpdated = updated
		}
	}
	return s
}

// Healthy reports whether no change has waited for too long.
func (h *Health) Healthy() bool { return h.status().Healthy }
