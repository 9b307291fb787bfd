package daemon

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// idleCheck is the interval at which ReturnMemory looks at the heap.
	idleCheck = 30 * time.Second
	// idleBytes is how much an idle process may allocate between two checks.
	idleBytes = 64 << 20
	// worthwhile is how much memory a collection must be able to return, in addition to an eighth of
	// the live heap, which is what the collection costs.
	worthwhile = 8 << 20
)

// ReturnMemory returns, until ctx ends, memory to the system whenever the process is idle: that of garbage, and the pages
// of the program's file that only its start or past requests needed. Go itself keeps as much garbage as live objects, for
// an idle process as for a busy one, and the kernel keeps the pages while it has others. A busy process is left alone, as
// is one whose environment sets GOGC or GOMEMLIMIT. It is for programs that share the user's machine.
func ReturnMemory(ctx context.Context) error {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(idleCheck)
	defer tick.Stop()
	before := readHeap()
	var pages program
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := readHeap()
		idle := now.idle(before)
		if idle && now.returns() {
			debug.FreeOSMemory()
			now = readHeap()
		}
		pages.check(idle)
		before = now
	}
}

// heap is the state of the heap, in bytes.
type heap struct {
	allocated uint64 // since the start of the process
	live      uint64 // after the last collection
	objects   uint64 // live ones and garbage
	free      uint64 // not returned to the system
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: liveHeap},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	values := make([]uint64, len(samples))
	for i, sample := range samples {
		if sample.Value.Kind() == metrics.KindUint64 { // otherwise this Go version does not report it
			values[i] = sample.Value.Uint64()
		}
	}
	return heap{allocated: values[0], live: values[1], objects: values[2], free: values[3]}
}

// idle reports whether the process has allocated little since before.
func (h heap) idle(before heap) bool { return h.allocated-before.allocated <= idleBytes }

// returns reports whether a collection would return much memory.
func (h heap) returns() bool { return h.objects+h.free > h.live+h.live/8+worthwhile }
