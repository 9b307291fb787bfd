package respond

import (
	"testing"
	"time"
)

// TestRates checks that a user that asks endlessly is throttled after the burst and seldom told so,
// that others are not throttled, and that quiet users are forgotten.
func TestRates(t *testing.T) {
	var r rates
	now := time.Unix(1000, 0)
	allowed, told := 0, 0
	for range 100_000 {
		ok, notify := r.allow("hostile", now)
		if ok {
			allowed++
		}
		if notify {
			told++
		}
	}
	if allowed != askBurst || told != toldRate {
		t.Errorf("%d asks at once are allowed, %d are answered with a refusal; want %d and %d", allowed, told, askBurst, toldRate)
	}
	if ok, _ := r.allow("other", now); !ok {
		t.Error("another user is throttled")
	}
	r.sweep(now)
	if len(r.users) != 2 {
		t.Errorf("%d users are known", len(r.users))
	}
	now = now.Add(time.Second)
	allowed = 0
	for range 100_000 {
		if ok, _ := r.allow("hostile", now); ok {
			allowed++
		}
	}
	if allowed != askRate {
		t.Errorf("%d asks are allowed a second later, want %d", allowed, askRate)
	}
	if r.sweep(now.Add(time.Minute)); len(r.users) != 0 {
		t.Errorf("%d users are not forgotten", len(r.users))
	}
}
