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
	// leastGrowth is for small heaps. Go's default, which lets a heap double, collects those many
	// times a second, which costs a tenth of a busy server's CPU time.
	leastGrowth = 128 << 20
	// growthPercent is for large heaps, where doubling would waste the machine's memory.
	growthPercent = 40
	// largestPercent limits the percentage for a nearly empty heap.
	largestPercent = 1000
	liveHeap       = "/gc/heap/live:bytes"
)

// CollectGarbage tunes, until ctx ends, how often Go's garbage collector runs: rarely while the
// heap is small, and often enough that a large heap stays near its live size. It does nothing if
// the environment variable GOGC is set. It is for servers whose heap is mostly a cache.
func CollectGarbage(ctx context.Context) error {
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
		if percent := percentFor(sample[0].Value.Uint64()); percent*10 < set*9 || percent*10 > set*11 {
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

// percentFor returns the growth percentage for a heap with the given number of live bytes.
func percentFor(live uint64) int {
	if live == 0 {
		return largestPercent
	}
	return int(min(largestPercent, max(growthPercent, leastGrowth*100/live)))
}
