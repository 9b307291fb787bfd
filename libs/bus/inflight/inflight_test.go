package inflight_test

import (
	"testing"

	"github.com/garboard/garboard/libs/bus/inflight"
)

func TestLimits(t *testing.T) {
	l := inflight.New(5, 3)
	acquire := func(who string, want bool) {
		t.Helper()
		if got := l.TryAcquire(who); got != want {
			t.Errorf("TryAcquire(%s) = %t", who, got)
		}
	}
	for range 3 {
		acquire("a", true)
	}
	acquire("a", false)
	acquire("b", true)
	acquire("b", true)
	acquire("b", false) // The total is reached.
	l.Release("a")
	acquire("c", true)
	acquire("a", false)
	for _, who := range []string{"a", "a", "b", "b", "c"} {
		l.Release(who)
	}
	for range 3 {
		acquire("a", true)
	}
	acquire("a", false)
}
