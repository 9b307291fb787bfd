package simulation_test

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	seeds = flag.Int("seeds", 40, "how many seeds the simulation of all faults runs; the others run fewer")
	whole = flag.Bool("whole", false, "run all seeds in every simulation")
	seed  = flag.Int("seed", -1, "the only seed to run; all if negative")
)

const faultySteps, quietSteps = 1500, 5000

// outcome is the result of one run.
type outcome struct {
	failure     string
	asks, quiet int
	// over is the number of steps for which HTTP had taken over for an informer.
	over int
}

// run takes 1,500 steps in the given world, then quiet ones until everything matches etcd.
func run(t testing.TB, seed uint64, s settings) outcome {
	w := newWorld(t, seed, s)
	for range faultySteps {
		if w.step(); w.failure != "" {
			return outcome{failure: w.failure}
		}
	}
	w.calmDown()
	o := outcome{}
	for o.quiet = 0; o.quiet < quietSteps; o.quiet++ {
		if w.step(); w.failure != "" {
			return outcome{failure: "quiet " + w.failure}
		}
		if w.behind() == "" {
			break
		}
	}
	for range 40 {
		w.step() // it must stay equal
	}
	if w.failure != "" {
		return outcome{failure: "quiet " + w.failure}
	}
	if why := w.behind(); why != "" {
		o.failure = "after a quiet time: " + why
	}
	for _, c := range w.clients {
		o.asks, o.over = o.asks+c.asks, o.over+c.over
	}
	return o
}

// simulate runs a share of the seeds, and reports the lowest seed that failed.
func simulate(t *testing.T, share int, s settings) {
	t.Helper()
	if *whole {
		share = 1
	}
	first, last := 0, max(1, *seeds/share)
	if *seed >= 0 {
		first, last = *seed, *seed+1
	}
	var next, asks, web, quiet, slowest atomic.Int64
	next.Store(int64(first))
	var mu sync.Mutex
	failed, why := last, ""
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				mu.Lock()
				over := n >= failed
				mu.Unlock()
				if over {
					return
				}
				o := run(t, uint64(n), s)
				asks.Add(int64(o.asks))
				web.Add(int64(o.over))
				quiet.Add(int64(o.quiet))
				for {
					was := slowest.Load()
					if int64(o.quiet) <= was || slowest.CompareAndSwap(was, int64(o.quiet)) {
						break
					}
				}
				if o.failure != "" {
					mu.Lock()
					if n < failed {
						failed, why = n, o.failure
					}
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	if why != "" {
		t.Fatalf("seed %d: %s", failed, why)
	}
	runs := int64(last - first)
	t.Logf("%d runs, %d asks and %d steps over HTTP a run, equal after %d quiet steps, at most %d", runs, asks.Load()/runs, web.Load()/runs, quiet.Load()/runs, slowest.Load())
}

func TestAll(t *testing.T) { simulate(t, 1, hostile()) }

// with returns a changed hostile world.
func with(change func(s *settings)) settings {
	s := hostile()
	change(&s)
	return s
}

func TestNoFaults(t *testing.T) { simulate(t, 8, calm()) }

func TestDropsOnly(t *testing.T) {
	s := calm()
	s.drop = 10
	simulate(t, 8, s)
}

// TestOneCutOffAtTheEnd: an apiserver that cannot reach etcd answers the quiet asks.
func TestOneCutOffAtTheEnd(t *testing.T) {
	simulate(t, 8, with(func(s *settings) { s.cutOff = true }))
}

func TestNoPublisherAtTheEnd(t *testing.T) {
	simulate(t, 8, with(func(s *settings) { s.mute = true }))
}

func TestNoPublisherAndOneCutOffAtTheEnd(t *testing.T) {
	simulate(t, 8, with(func(s *settings) { s.mute, s.cutOff = true, true }))
}

func TestNoLog(t *testing.T) { simulate(t, 8, with(func(s *settings) { s.noLog = true })) }

func TestSmallWindow(t *testing.T) { simulate(t, 8, with(func(s *settings) { s.window = 6 })) }

// TestLists: objects that are too large for an answer are listed over HTTP, also by apiservers of a
// dead timeline.
func TestLists(t *testing.T) {
	simulate(t, 8, with(func(s *settings) { s.answerPayload, s.large, s.restore = s.messagePayload, 10, 30 }))
}

// TestHTTP: HTTP takes over where the bus does not reach an informer, and hands back. Apiservers of
// a dead timeline answer over HTTP too.
func TestHTTP(t *testing.T) {
	simulate(t, 8, with(func(s *settings) { s.unplug, s.unanswered, s.restore = 60, time.Second, 30 }))
}

// TestHTTPAtTheEnd: HTTP also takes over where nothing arrives over the bus any more.
func TestHTTPAtTheEnd(t *testing.T) {
	simulate(t, 8, with(func(s *settings) {
		s.unplug, s.unanswered, s.restore, s.away = 60, time.Second, 30, true
	}))
}

// TestRestoredWithoutNotice: etcd is set back unannounced; the apiservers that knew its contents
// find out.
func TestRestoredWithoutNotice(t *testing.T) {
	simulate(t, 8, with(func(s *settings) { s.reuse, s.unnoticed = 100, true }))
}

// TestSeedsRepeat checks that the same seed gives the same run.
func TestSeedsRepeat(t *testing.T) {
	for n := range uint64(3) {
		first, second := fmt.Sprint(run(t, n, hostile())), fmt.Sprint(run(t, n, hostile()))
		if first != second {
			t.Errorf("seed %d: %s, then %s", n, first, second)
		}
	}
}
