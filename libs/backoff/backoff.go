// Package backoff has the pauses between attempts.
package backoff

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Doubling returns the delays of a series of attempts, for the Step method to read. They begin at
// first and double up to longest, or without bound if longest is 0. Each is lengthened at random by
// up to jitter times its length.
func Doubling(first, longest time.Duration, jitter float64) wait.Backoff {
	// Steps bounds how often a delay may grow, which only longest shall.
	return wait.Backoff{Duration: first, Factor: 2, Jitter: jitter, Steps: math.MaxInt, Cap: longest}
}

// Around returns a random duration between a half and one and a half times d.
func Around(d time.Duration) time.Duration { return wait.Jitter(d/2, 2) }

// Sleep waits for d, or until ctx ends. It reports whether ctx is still active.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}
