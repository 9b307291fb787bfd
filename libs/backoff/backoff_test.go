package backoff_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/backoff"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDoubling(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		first, longest time.Duration
		want           []time.Duration
	}{
		"up to a power":   {s, 8 * s, []time.Duration{s, 2 * s, 4 * s, 8 * s, 8 * s, 8 * s}},
		"up to the bound": {s, 5 * s, []time.Duration{s, 2 * s, 4 * s, 5 * s, 5 * s}},
		"without a bound": {s, 0, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s}},
		"constant":        {s, s, []time.Duration{s, s, s}},
	} {
		t.Run(name, func(t *testing.T) {
			delays := backoff.Doubling(tc.first, tc.longest, 0)
			var got []time.Duration
			for range tc.want {
				got = append(got, delays.Step())
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestDoublingWithJitter(t *testing.T) {
	delays, base := backoff.Doubling(time.Second, 30*time.Second, 0.5), time.Second
	for range 100 {
		if got := delays.Step(); got < base || got > base+base/2 {
			t.Fatalf("got %v, want between %v and half as much again", got, base)
		}
		base = min(2*base, 30*time.Second)
	}
}

func TestAround(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		got := backoff.Around(time.Second)
		least, most = min(least, got), max(most, got)
	}
	if least < time.Second/2 || least > 700*time.Millisecond || most > 3*time.Second/2 || most < 1300*time.Millisecond {
		t.Errorf("between %v and %v, want them close to a half and one and a half seconds", least, most)
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !backoff.Sleep(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("slept %v, want a minute", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if backoff.Sleep(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("slept %v, want to wake after a second when the context ends", time.Since(began))
		}
		if backoff.Sleep(ctx, 0) {
			t.Error("no time to sleep hides that the context has ended")
		}
	})
}
