package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
)

// Limits of the growth of a heap between two collections.
const (
	// growthPercent is for large heaps, where doubling would waste the machine's memory.
	growthPercent = 40
	// largestPercent limits the percentage for a nearly empty heap.
	largestPercent = 1000
	liveHeap       = "/gc/heap/live:bytes"
)

// CollectGarbage returns a function that tunes, until its context ends, how often Go's garbage collector runs: rarely
// while the heap is small, since it may grow by least bytes at least between two collections, and often enough that a
// large heap stays near its live size. Go's default, which lets a heap double, collects a small one many times a second,
// which costs a tenth of a busy server's CPU time. The function does nothing if the environment variable GOGC is set. It
// is for servers whose heap is mostly a cache.
func CollectGarbage(least uint64) func(ctx context.Context) error {
	return func(ctx context.Context) error { return collectGarbage(ctx, least) }
}

func collectGarbage(ctx context.Context, least uint64) error {
	if os.Getenv("GOGC") != "" {
		<-ctx.Done()
		return nil
	}
	// Go's default percentage, until the first collection has measured the live heap.
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
			continue // this Go version does not report it
		}
		// Setting it stops the program briefly, so skip small changes.
		if percent := percentFor(sample[0].Value.Uint64(), least); percent*10 < set*9 || percent*10 > set*11 {
			debug.SetGCPercent(percent)
			set = percent
		}
	}
}

// sentinel is garbage whose finalizer runs after a collection. It has a pointer field, since small
// objects without pointers share their memory with others.
type sentinel struct{ _ *sentinel }

// collections returns a channel that receives a value after each garbage collection, until stop.
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

// percentFor returns the growth percentage for a heap with the given number of live bytes, which may grow by least.
func percentFor(live, least uint64) int {
	if live == 0 {
		return largestPercent
	}
	return int(min(largestPercent, max(growthPercent, least*100/live)))
}
