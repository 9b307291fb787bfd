package inflight_test

import (
	"testing"

	"github.com/garboard/garboard/libs/bus/inflight"
)

func TestLimits(t *testing.T) {
	p := inflight.New(5, 3)
	take := func(who string, want bool) {
		t.Helper()
		if got := p.Take(who); got != want {
			t.Errorf("Take(%s) = %t", who, got)
		}
	}
	for range 3 {
		take("a", true)
	}
	take("a", false)
	take("b", true)
	take("b", true)
	take("b", false) // All slots are taken.
	p.Leave("a")
	take("c", true)
	take("a", false)
	for _, who := range []string{"a", "a", "b", "b", "c"} {
		p.Leave(who)
	}
	for range 3 {
		take("a", true)
	}
	take("a", false)
}
