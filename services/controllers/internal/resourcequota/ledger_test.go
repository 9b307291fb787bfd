package resourcequota

import (
	"testing"
	"time"
)

// TestOldChargesAreDropped checks that a charge is dropped when its object can no longer appear,
// never before, and only for a count that shows everything.
func TestOldChargesAreDropped(t *testing.T) {
	begin := time.Unix(1e9, 0)
	l := &ledger{}
	for _, step := range []struct {
		after   time.Duration
		settled bool
		used    string
		want    string
		due     time.Duration
	}{
		{0, false, "pods=0", "", 0},
		{time.Second, false, "pods=1", "pods=1", time.Second + settleTime},
		{31 * time.Second, false, "pods=3", "pods=3", time.Second + settleTime},
		{settleTime, true, "pods=3", "pods=3", time.Second + settleTime},
		{time.Second + settleTime, false, "pods=3", "pods=3", time.Second + settleTime},
		{time.Second + settleTime, true, "pods=3", "pods=2", 31*time.Second + settleTime},
		{30*time.Second + settleTime, true, "pods=3", "pods=2", 31*time.Second + settleTime},
		{31*time.Second + settleTime, true, "pods=3", "pods=0", 0},
	} {
		pending := l.balance(list(step.used), list("pods=0"), nil, 0, begin.Add(step.after), step.settled)
		if got := text(pending); got != step.want {
			t.Errorf("after %v, settled %v: got %q still to come, want %q", step.after, step.settled, got, step.want)
		}
		if due := l.due(); due.IsZero() != (step.due == 0) || step.due != 0 && !due.Equal(begin.Add(step.due)) {
			t.Errorf("after %v, settled %v: got the next due at %v, want %v", step.after, step.settled, due, begin.Add(step.due))
		}
	}
}
