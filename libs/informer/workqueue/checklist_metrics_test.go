package workqueue_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// childEnv tells a process that a test starts what to do.
const childEnv = "GARBOARD_WORKQUEUE_TEST_CHILD"

// child runs one test of this binary in a process of its own.
func child(t *testing.T, test, what string) (output string, err error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+test+"$", "-test.count", "1")
	command.Env = append(os.Environ(), childEnv+"="+what)
	out, err := command.CombinedOutput()
	return string(out), err
}

func byName(name string) implementation {
	if name == "ours" {
		return ours()
	}
	return clientGo()
}

func TestChecklistParallelizeUntil(t *testing.T) {
	onBoth(t, "46: every piece once, by at most so many goroutines", func(t *testing.T, im implementation) {
		for _, tt := range []struct{ workers, pieces, chunk int }{
			{1, 0, 0}, {1, 1, 0}, {4, 1000, 1}, {4, 1000, 7}, {16, 5, 100}, {3, 10, -1}, {4, 10, 3}, {100, 10, 4},
		} {
			done := make([]atomic.Int32, tt.pieces)
			var running, most atomic.Int32
			im.parallelize(parallelism{workers: tt.workers, pieces: tt.pieces, chunk: tt.chunk}, func(piece int) {
				n := running.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				time.Sleep(time.Second) // In the bubble, all workers are in a piece now.
				done[piece].Add(1)
				running.Add(-1)
			})
			for i := range done {
				if n := done[i].Load(); n != 1 {
					t.Errorf("%+v: piece %d was done %d times", tt, i, n)
				}
			}
			chunk := max(tt.chunk, 1)
			if want := min(tt.workers, (tt.pieces+chunk-1)/chunk); int(most.Load()) != want {
				t.Errorf("%+v: %d goroutines worked at once, want %d", tt, most.Load(), want)
			}
		}
		im.parallelize(parallelism{workers: 0, pieces: 5}, func(int) { t.Error("work without workers") })
	})

	onBoth(t, "47: a cancelled context stops before the next piece", func(t *testing.T, im implementation) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var begun, ended atomic.Int32
		im.parallelize(parallelism{ctx: ctx, workers: 3, pieces: 1000, chunk: 100}, func(int) {
			if begun.Add(1) == 9 { // the third round of three
				cancel()
			}
			time.Sleep(time.Second)
			ended.Add(1)
		})
		if begun.Load() != ended.Load() {
			t.Errorf("%d pieces were begun, %d ended: one was interrupted, or not waited for", begun.Load(), ended.Load())
		}
		if n := ended.Load(); n != 9 {
			t.Errorf("%d pieces were done, want 9", n)
		}
	})

	for _, name := range []string{"ours", "client-go"} {
		t.Run("47: a piece that panics ends the process/"+name, func(t *testing.T) {
			output, err := child(t, "TestChildPanics", name)
			survived := name == "ours" && strings.Contains(output, "survived") // Client-go's call may return first.
			if err == nil || !strings.Contains(output, "panic: piece 1 is bad") || survived {
				t.Errorf("error %v, output:\n%s", err, output)
			}
		})
	}
}

// TestChildPanics is run by TestChecklistParallelizeUntil in a process of its own.
func TestChildPanics(t *testing.T) {
	name := os.Getenv(childEnv)
	if name == "" {
		return
	}
	byName(name).parallelize(parallelism{ctx: t.Context(), workers: 2, pieces: 2}, func(piece int) {
		if piece == 1 {
			panic("piece 1 is bad")
		}
	})
	fmt.Println("survived")
	<-time.After(time.Minute) // If the call does not wait for the panic, the panic ends the process only now.
}

// TestParallelizeUntilOfOddNumbers uses numbers that client-go's arithmetic does not survive.
func TestParallelizeUntilOfOddNumbers(t *testing.T) {
	for _, tt := range []struct{ workers, pieces, chunk, want int }{
		{2, 3, int(^uint(0) >> 1), 3}, {2, -1, 1, 0}, {-1, 3, 1, 0}, {int(^uint(0) >> 1), 3, 1, 3},
	} {
		var done atomic.Int32
		workqueue.ParallelizeUntil(t.Context(), tt.workers, tt.pieces, func(int) { done.Add(1) }, workqueue.WithChunkSize(tt.chunk))
		if n := int(done.Load()); n != tt.want {
			t.Errorf("%+v: %d pieces were done", tt, n)
		}
	}
}

func TestChecklistMetrics(t *testing.T) {
	onBoth(t, "48: the seven metrics", func(t *testing.T, im implementation) {
		metrics := &recorded{}
		q := im.delaying(settings{name: "q", metrics: metrics})
		q.ShutDown()
		slices.Sort(metrics.made)
		want := []string{"adds q", "depth q", "duration q", "latency q", "longest q", "retries q", "unfinished q"}
		if !slices.Equal(metrics.made, want) {
			t.Errorf("made %q, want %q", metrics.made, want)
		}
	})

	onBoth(t, "50: adds and depth rise with each item that becomes dirty", func(t *testing.T, im implementation) {
		metrics := &recorded{}
		q := im.queue(settings{name: "q", metrics: metrics})
		t.Cleanup(q.ShutDown)
		check := func(adds, depth float64) {
			t.Helper()
			if metrics.adds.get() != adds || metrics.depth.get() != depth {
				t.Errorf("adds %v, depth %v; want %v and %v", metrics.adds.get(), metrics.depth.get(), adds, depth)
			}
		}
		q.Add("a")
		q.Add("a")
		q.Add("b")
		check(2, 2)
		got(t, q, "a")
		check(2, 1)
		q.Add("a")
		q.Add("a")
		check(3, 2)
		q.Done("a")
		check(3, 2)
		got(t, q, "b", "a")
		check(3, 0)
	})

	onBoth(t, "51: latency, work duration, and the ages of held items each 500 ms", func(t *testing.T, im implementation) {
		metrics := &recorded{}
		q := im.queue(settings{name: "q", metrics: metrics})
		t.Cleanup(q.ShutDown)
		observed := func(latency, duration string, unfinished, longest float64) {
			t.Helper()
			synctest.Wait() // for the sampling
			if metrics.latency.String() != latency || metrics.duration.String() != duration ||
				metrics.unfinished.get() != unfinished || metrics.longest.get() != longest {
				t.Errorf("got %v, want latency %s duration %s unfinished %v longest %v", metrics, latency, duration, unfinished, longest)
			}
		}
		q.Add("a")
		q.Add("b")
		time.Sleep(2 * time.Second)
		q.Add("a") // It is not the first add, so it changes nothing.
		got(t, q, "a")
		observed("1/2.000000", "0/0.000000", 0, 0)
		time.Sleep(1100 * time.Millisecond)
		observed("1/2.000000", "0/0.000000", 1, 1) // as of the instant 3 s
		got(t, q, "b")
		q.Add("a") // Its latency begins now, although it is held.
		time.Sleep(time.Second)
		observed("2/5.100000", "0/0.000000", 2.9, 2)
		q.Done("b")
		q.Done("a")
		observed("2/5.100000", "2/3.100000", 2.9, 2)
		time.Sleep(time.Second)
		got(t, q, "a")
		observed("3/7.100000", "2/3.100000", 0, 0)
	})

	for _, name := range []string{"ours", "client-go"} {
		t.Run("52: SetProvider acts once, for queues made later/"+name, func(t *testing.T) {
			if output, err := child(t, "TestChildSetsProvider", name); err != nil {
				t.Errorf("%v\n%s", err, output)
			}
		})
	}
}

// TestChildSetsProvider is run by TestChecklistMetrics in a process of its own, since it tests
// state of the process.
func TestChildSetsProvider(t *testing.T) {
	name := os.Getenv(childEnv)
	if name == "" {
		return
	}
	im := byName(name)
	first, second, configured := &recorded{}, &recorded{}, &recorded{}
	queues := []workqueue.TypedInterface[string]{im.delaying(settings{name: "before"})}
	im.setProvider(first)
	im.setProvider(second)
	queues = append(queues, im.delaying(settings{}), im.delaying(settings{name: "after"}), im.delaying(settings{name: "own", metrics: configured}))
	for _, q := range queues {
		q.Add("a")
		q.(workqueue.TypedDelayingInterface[string]).AddAfter("b", 0)
		q.ShutDown()
	}
	if first.adds.get() != 2 || first.retries.get() != 1 {
		t.Errorf("the first provider counted %v", first)
	}
	if len(second.made) != 0 {
		t.Errorf("the second provider made %q", second.made)
	}
	if configured.adds.get() != 2 || configured.retries.get() != 1 {
		t.Errorf("the provider in the options counted %v", configured)
	}
}
