package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for live, want := range map[uint64]int{0: 1000, 1 << 20: 1000, 64 << 20: 200, 128 << 20: 100, 256 << 20: 50, 400 << 20: 40, 8 << 30: 40} {
		if got := percentFor(live, 128<<20); got != want {
			t.Errorf("for %d MB: got %d, want %d", live>>20, got, want)
		}
	}
}

func TestPercentForLess(t *testing.T) {
	if got := percentFor(64<<20, 64<<20); got != 100 {
		t.Errorf("got %d, want 100", got)
	}
}

// percent reads the percentage without changing it, so that it doesn't undo a concurrent change.
func percent() int {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return int(sample[0].Value.Uint64())
}

// TestCollectGarbage checks that the percentage follows the live heap, and is restored afterwards.
func TestCollectGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(77)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- CollectGarbage(128 << 20)(ctx) }()
	await := func(what string, holds func(int) bool) {
		t.Helper()
		deadline := time.Now().Add(time.Minute)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for !holds(percent()) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: the percentage is %d", what, percent())
			}
			runtime.GC()
			<-tick.C
		}
	}
	await("a small heap", func(p int) bool { return p > 300 })
	kept := make([]byte, 200<<20)
	await("a large heap", func(p int) bool { return p < 100 })
	runtime.KeepAlive(kept)
	await("a shrunk heap", func(p int) bool { return p > 300 })
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if p := percent(); p != 77 {
		t.Errorf("the percentage stays at %d", p)
	}
}

func TestCollectGarbageWithGOGC(t *testing.T) {
	t.Setenv("GOGC", "70")
	before := debug.SetGCPercent(70)
	defer debug.SetGCPercent(before)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- CollectGarbage(128 << 20)(ctx) }()
	for range 10 {
		runtime.GC()
	}
	cancel()
	if err := <-done; err != nil || percent() != 70 {
		t.Errorf("%v, %d", err, percent())
	}
}
