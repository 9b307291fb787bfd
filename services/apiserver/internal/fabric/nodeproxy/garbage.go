package nodeproxy

import (
	"runtime"
	"runtime/metrics"
	"sync/atomic"
)

// passedGarbage is how many bytes of what nodes sent may lie in memory as garbage, if that is also half as much as is in
// use: a collection costs time for what is in use.
const passedGarbage = 12 << 20

// messageCost is added for every message, whose parts are allocated as well: those of small ones are most of their cost.
const messageCost = 2 << 10

// garbage has collections run for what arrives from nodes. NATS' client allocates every message, which is garbage as
// soon as the client of the request has it. An apiserver lets more garbage lie than a session should cost, since most of
// it comes from requests, which are many.
type garbage struct {
	passed atomic.Int64  // bytes since the last look
	much   chan struct{} // receives a value when a look is due
	read   func() (garbage, live uint64)
	run    func()
}

func newGarbage() *garbage {
	return &garbage{much: make(chan struct{}, 1), read: readGarbage, run: runtime.GC}
}

// received counts a message of so many bytes.
func (g *garbage) received(bytes int) {
	if g.passed.Add(int64(bytes)+messageCost) < passedGarbage {
		return
	}
	select {
	case g.much <- struct{}{}:
	default:
	}
}

// collect runs a collection unless there was one since most of it arrived, or the heap is large.
func (g *garbage) collect() {
	g.passed.Store(0)
	if garbage, live := g.read(); garbage >= max(passedGarbage, live/2) {
		g.run()
	}
}

func readGarbage() (garbage, live uint64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	for _, sample := range samples {
		if sample.Value.Kind() != metrics.KindUint64 {
			return 0, 0 // This Go version does not report it.
		}
	}
	objects, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
	return objects - min(objects, live), live
}
