package bus

import (
	"testing"
	"time"
)

// TestReconnectDelay checks that delays grow up to the limit, and that they vary.
func TestReconnectDelay(t *testing.T) {
	for _, c := range []struct{ longest, want time.Duration }{{0, maxReconnectDelay}, {300 * time.Millisecond, 300 * time.Millisecond}} {
		delay := reconnectDelay(c.longest)
		seen := map[time.Duration]bool{}
		for attempts := range 100 {
			d := delay(attempts)
			if d > c.want || d < minReconnectDelay/2 || attempts >= 7 && d < c.want/2 {
				t.Errorf("limit %v: attempt %d waits %v", c.want, attempts, d)
			}
			seen[d] = true
		}
		if len(seen) < 50 {
			t.Errorf("limit %v: only %d different delays", c.want, len(seen))
		}
	}
}
