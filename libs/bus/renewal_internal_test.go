package bus

import (
	"testing"
	"time"
)

// TestRenewalsAreBounded checks how often a connection is renewed that always wants to be, and that the
// pauses are short again after calm.
func TestRenewalsAreBounded(t *testing.T) {
	least := func(time.Duration) time.Duration { return 0 }
	most := func(d time.Duration) time.Duration { return d - 1 }
	for name, random := range map[string]func(time.Duration) time.Duration{"least": least, "most": most} {
		t.Run(name, func(t *testing.T) {
			var plan renewals
			start := time.Unix(1_000_000, 0)
			now := plan.next(start, random)
			if wait := now.Sub(start); wait < renewSoon || wait > renewSoon+renewSpread {
				t.Errorf("the first renewal waits %v", wait)
			}
			plan.did(now)
			pause, times := minRenewPause, 1
			for now.Sub(start) < time.Hour {
				next := plan.next(now, random)
				if wait := next.Sub(now); wait < pause || wait > pause+pause/4 {
					t.Errorf("renewal %d comes after %v, want %v", times+1, wait, pause)
				}
				now = next
				plan.did(now)
				pause, times = min(2*pause, maxRenewPause), times+1
			}
			if times > 6+12 {
				t.Errorf("renewed %d times in an hour", times)
			}
			now = now.Add(4 * maxRenewPause)
			if next := plan.next(now, random); next.Sub(now) > renewSoon+renewSpread {
				t.Errorf("after calm a renewal waits %v", next.Sub(now))
			}
			plan.did(now)
			if next := plan.next(now, random); next.Sub(now) > minRenewPause+minRenewPause/4 {
				t.Errorf("after calm the second renewal waits %v", next.Sub(now))
			}
		})
	}
}
