package workqueue_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	upstream "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// settings are the options of the queues that the tests create from both implementations.
type settings struct {
	name    string
	metrics *recorded
	clock   clock.WithTicker
	order   workqueue.Queue[string]
	// beneath is the queue below a delaying queue, delaying the one below a rate limiting queue.
	beneath  workqueue.TypedInterface[string]
	delaying workqueue.TypedDelayingInterface[string]
}

func (s settings) ourProvider() workqueue.MetricsProvider {
	if s.metrics == nil {
		return nil
	}
	return s.metrics
}

func (s settings) theirProvider() upstream.MetricsProvider {
	if s.metrics == nil {
		return nil
	}
	return theirs{s.metrics}
}

// implementation is this package or client-go.
type implementation struct {
	ours          bool
	queue         func(settings) workqueue.TypedInterface[string]
	delaying      func(settings) workqueue.TypedDelayingInterface[string]
	limiting      func(workqueue.TypedRateLimiter[string], settings) workqueue.TypedRateLimitingInterface[string]
	exponential   func(base, limit time.Duration) workqueue.TypedRateLimiter[string]
	fastSlow      func(fast, slow time.Duration, attempts int) workqueue.TypedRateLimiter[string]
	bucket        func(limit float64, burst int) workqueue.TypedRateLimiter[string]
	maxOf         func(...workqueue.TypedRateLimiter[string]) workqueue.TypedRateLimiter[string]
	maxWait       func(workqueue.TypedRateLimiter[string], time.Duration) workqueue.TypedRateLimiter[string]
	controllers   func() workqueue.TypedRateLimiter[string]
	items         func() workqueue.TypedRateLimiter[string]
	parallelize   func(s parallelism, do func(int))
	setProvider   func(*recorded)
	makeUntypeds  func() []workqueue.TypedInterface[any]
	defaultsQueue func() workqueue.Queue[string]
}

// onBoth tests one item of the checklist on this package and on client-go, each in a bubble of
// synthetic time. Both must behave as the test states; where this package differs deliberately, the
// test states what each does.
func onBoth(t *testing.T, item string, test func(t *testing.T, im implementation)) {
	t.Helper()
	for _, im := range []implementation{ours(), clientGo()} {
		name := "client-go"
		if im.ours {
			name = "ours"
		}
		t.Run(item+"/"+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, im) })
		})
	}
}

// differs returns what this package does deliberately, or what client-go does.
func differs[V any](im implementation, ours, theirs V) V {
	if im.ours {
		return ours
	}
	return theirs
}

// got fails the test unless Get returns want.
func got(t *testing.T, q workqueue.TypedInterface[string], want ...string) {
	t.Helper()
	for _, w := range want {
		if q.Len() == 0 {
			t.Fatalf("nothing is queued, want %q", w)
		}
		item, shutdown := q.Get()
		if shutdown || item != w {
			t.Fatalf("Get returned %q, shutdown %v; want %q", item, shutdown, w)
		}
	}
}

func length(t *testing.T, q workqueue.TypedInterface[string], want int) {
	t.Helper()
	synctest.Wait()
	if n := q.Len(); n != want {
		t.Fatalf("Len is %d, want %d", n, want)
	}
}

// ended fails the test unless Get reports a shutdown.
func ended(t *testing.T, q workqueue.TypedInterface[string]) {
	t.Helper()
	if item, shutdown := q.Get(); !shutdown || item != "" {
		t.Errorf("Get returned %q, shutdown %v; want the zero value and true", item, shutdown)
	}
	if !q.ShuttingDown() {
		t.Error("ShuttingDown is false")
	}
}

// background runs f in a goroutine; returned reports whether f has returned.
func background(f func()) (returned func() bool) {
	var done atomic.Bool
	go func() {
		f()
		done.Store(true)
	}()
	return func() bool {
		synctest.Wait()
		return done.Load()
	}
}

// liveClock counts the tickers and timers that have not been stopped.
type liveClock struct {
	clock.RealClock
	tickers, timers atomic.Int32
	// made counts all that were ever created; dead creates timers that never fire.
	made atomic.Int32
	dead bool
}

func (c *liveClock) NewTicker(d time.Duration) clock.Ticker {
	c.made.Add(1)
	c.tickers.Add(1)
	return &liveTicker{Ticker: c.RealClock.NewTicker(d), stop: sync.OnceFunc(func() { c.tickers.Add(-1) })}
}

func (c *liveClock) NewTimer(d time.Duration) clock.Timer {
	c.made.Add(1)
	t := &liveTimer{c: c}
	t.count(true)
	if c.dead {
		d = 1000 * time.Hour
	}
	t.Timer = c.RealClock.NewTimer(d)
	return t
}

type liveTicker struct {
	clock.Ticker
	stop func()
}

func (t *liveTicker) Stop() {
	t.Ticker.Stop()
	t.stop()
}

type liveTimer struct {
	clock.Timer
	c    *liveClock
	live bool
}

func (t *liveTimer) count(live bool) {
	switch {
	case live && !t.live:
		t.c.timers.Add(1)
	case !live && t.live:
		t.c.timers.Add(-1)
	}
	t.live = live
}

func (t *liveTimer) Stop() bool {
	t.count(false)
	return t.Timer.Stop()
}

func (t *liveTimer) Reset(d time.Duration) bool {
	t.count(true)
	t.c.made.Add(1)
	if t.c.dead {
		d = 1000 * time.Hour
	}
	return t.Timer.Reset(d)
}
