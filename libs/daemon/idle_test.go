package daemon

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestReturns(t *testing.T) {
	const mb = 1 << 20
	for name, test := range map[string]struct {
		allocated uint64 // since the check before
		now       heap
		want      bool
	}{
		"idle, without garbage":                {10 * mb, heap{live: 40 * mb, objects: 42 * mb, free: mb}, false},
		"idle, with garbage":                   {20 * mb, heap{live: 40 * mb, objects: 60 * mb}, true},
		"idle, with free memory":               {0, heap{live: 40 * mb, objects: 40 * mb, free: 20 * mb}, true},
		"idle, little garbage of a large heap": {60 * mb, heap{live: 800 * mb, objects: 860 * mb}, false},
		"busy":                                 {100 * mb, heap{live: 40 * mb, objects: 80 * mb}, false},
	} {
		before := heap{allocated: 900 * mb}
		test.now.allocated = before.allocated + test.allocated
		if got := test.now.idle(before) && test.now.returns(); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

// TestReturnMemory leaves garbage behind, and checks that it is returned only while the process is
// idle, and only if the environment does not configure the collector.
func TestReturnMemory(t *testing.T) {
	for name, test := range map[string]struct {
		limit string
		busy  bool
		want  bool
	}{
		"idle":       {"", false, true},
		"busy":       {"", true, false},
		"configured": {"8GiB", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", "")
			t.Setenv("GOMEMLIMIT", test.limit)
			synctest.Test(t, func(t *testing.T) {
				// What is allocated is garbage until a collection finds it in use.
				runtime.GC()
				defer debug.SetGCPercent(debug.SetGCPercent(-1))
				garbage := make([]byte, 100<<20)
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- ReturnMemory(ctx) }()
				synctest.Wait()
				if test.busy {
					runtime.KeepAlive(make([]byte, 2*idleBytes))
				}
				runtime.KeepAlive(garbage)
				collections := collected()
				time.Sleep(idleCheck + time.Second)
				synctest.Wait()
				if got := collected() > collections; got != test.want {
					t.Errorf("collected: %t, want %t", got, test.want)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// collected returns the number of forced collections.
func collected() uint32 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.NumForcedGC
}
