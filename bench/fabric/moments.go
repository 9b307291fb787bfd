package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// moments records when something happened to each revision.
type moments struct {
	mu sync.Mutex
	at map[int64]time.Time
	// latest is the largest revision so far.
	latest int64
}

func newMoments() *moments { return &moments{at: map[int64]time.Time{}} }

func (m *moments) note(revision int64) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, again := m.at[revision]; !again {
		m.at[revision] = now
	}
	m.latest = max(m.latest, revision)
}

// wait waits until the revision, or a later one, is recorded.
func (m *moments) wait(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		m.mu.Lock()
		latest := m.latest
		m.mu.Unlock()
		if latest >= revision {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for revision %d: %w", revision, ctx.Err())
		}
	}
}

// between returns the time between both moments, for each revision that has both.
func between(from, to map[int64]time.Time) []time.Duration {
	var all []time.Duration
	for revision, then := range to {
		if began, ok := from[revision]; ok {
			all = append(all, then.Sub(began))
		}
	}
	return all
}
