package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// How much a heap may grow between two collections.
const (
	// leastGrowth is for small heaps: Go's own rule, to let a heap double, has those collected
	// many times a second, which is a tenth of what a busy server does.
	leastGrowth = 128 << 20
	// growthPercent is for large ones, where doubling would waste the machine's memory.
	growthPercent = 40
	// largestPercent bounds what a heap of almost nothing is told.
	largestPercent = 1000
	liveHeap       = "/gc/heap/live:bytes"
)

// CollectGarbage sets, until ctx ends, how often Go's garbage collector runs: seldom while the
// heap is small, and so that a large one stays near what is in use. It does nothing when the
// environment variable GOGC says how often. It is for servers whose heap is mostly a cache.
func CollectGarbage(ctx context.Context) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	// Go's own percentage, until the first collection has told what is in use.
	set := debug.SetGCPercent(100)
	defer debug.SetGCPercent(set)
	set = 100
	sample := []metrics.Sample{{Name: liveHeap}}
	collected, stop := collections()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-collected:
		}
		metrics.Read(sample)
		if sample[0].Value.Kind() != metrics.KindUint64 {
			continue // a Go that does not tell
		}
		// To set it stops the program for a moment, so not for little.
		if percent := percentFor(sample[0].Value.Uint64()); percent*10 < set*9 || percent*10 > set*11 {
			debug.SetGCPercent(percent)
			set = percent
		}
	}
}

// sentinel is garbage whose finalizer runs after a collection. It has a pointer, since small
// objects without one share their memory with others.
type sentinel struct{ _ *sentinel }

// collections gives a channel that has a value after each garbage collection, until stop.
func collections() (collected <-chan struct{}, stop func()) {
	told := make(chan struct{}, 1)
	var stopped atomic.Bool
	var again func(*sentinel)
	again = func(s *sentinel) {
		if stopped.Load() {
			return
		}
		select {
		case told <- struct{}{}:
		default:
		}
		runtime.SetFinalizer(s, again)
	}
	runtime.SetFinalizer(&sentinel{}, again)
	return told, func() { stopped.Store(true) }
}

// percentFor is by how much a heap with so many bytes in use may grow.
func percentFor(live uint64) int {
	if live == 0 {
		return largestPercent
	}
	return int(min(largestPercent, max(growthPercent, leastGrowth*100/live)))
}
