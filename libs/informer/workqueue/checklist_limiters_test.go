package workqueue_test

import (
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// script is a rate limiter that always returns one delay, and records its calls.
type script struct {
	delay time.Duration
	calls []string
}

func (s *script) When(item string) time.Duration {
	s.calls = append(s.calls, "when "+item)
	return s.delay
}
func (s *script) Forget(item string)          { s.calls = append(s.calls, "forget "+item) }
func (s *script) NumRequeues(item string) int { return len(s.calls) }

// delays records the delays passed to a delaying queue.
type delays struct {
	workqueue.TypedDelayingInterface[string]
	calls []time.Duration
}

func (d *delays) AddAfter(item string, duration time.Duration) {
	d.calls = append(d.calls, duration)
	d.TypedDelayingInterface.AddAfter(item, duration)
}

// asks fails the test unless a limiter's next delays for item are want.
func asks(t *testing.T, l workqueue.TypedRateLimiter[string], item string, want ...time.Duration) {
	t.Helper()
	for i, w := range want {
		if d := l.When(item); d != w {
			t.Fatalf("delay %d for %s is %v, want %v", i+1, item, d, w)
		}
	}
}

func requeues(t *testing.T, l interface{ NumRequeues(string) int }, item string, want int) {
	t.Helper()
	if n := l.NumRequeues(item); n != want {
		t.Fatalf("NumRequeues(%s) is %d, want %d", item, n, want)
	}
}

func TestChecklistRateLimiting(t *testing.T) {
	onBoth(t, "34: AddRateLimited is AddAfter with the limiter's delay, asked once", func(t *testing.T, im implementation) {
		limiter := &script{delay: 7 * time.Second}
		delaying := &delays{TypedDelayingInterface: im.delaying(settings{})}
		q := im.limiting(limiter, settings{delaying: delaying})
		t.Cleanup(q.ShutDown)
		q.AddRateLimited("a")
		if !slices.Equal(limiter.calls, []string{"when a"}) || !slices.Equal(delaying.calls, []time.Duration{7 * time.Second}) {
			t.Errorf("the limiter was called %q, the delaying queue %v", limiter.calls, delaying.calls)
		}
		time.Sleep(7 * time.Second)
		length(t, q, 1)
		got(t, q, "a")
	})

	onBoth(t, "35: Forget touches the limiter only", func(t *testing.T, im implementation) {
		limiter := im.exponential(time.Second, time.Minute)
		q := im.limiting(limiter, settings{})
		t.Cleanup(q.ShutDown)
		q.AddRateLimited("waits")
		synctest.Wait()
		q.Add("queued")
		q.Add("held")
		got(t, q, "queued")
		q.Done("queued")
		q.Add("queued")
		got(t, q, "held")
		for _, item := range []string{"waits", "queued", "held"} {
			q.Forget(item)
		}
		requeues(t, q, "waits", 0)
		length(t, q, 1)
		q.Add("held")
		length(t, q, 1) // It is still held.
		q.Done("held")
		got(t, q, "queued", "held")
		time.Sleep(time.Second)
		length(t, q, 1)
		got(t, q, "waits") // It came all the same.
	})

	onBoth(t, "36: NumRequeues is the limiter's", func(t *testing.T, im implementation) {
		q := im.limiting(im.exponential(time.Second, time.Minute), settings{})
		t.Cleanup(q.ShutDown)
		requeues(t, q, "a", 0)
		q.AddRateLimited("a")
		q.AddRateLimited("a")
		requeues(t, q, "a", 2)
		requeues(t, q, "b", 0)
		q.Forget("a")
		requeues(t, q, "a", 0)
	})

	onBoth(t, "37: exponential: doubles per item, capped, counts on, safe for concurrent use", func(t *testing.T, im implementation) {
		l := im.exponential(3, 20)
		asks(t, l, "a", 3, 6, 12, 20, 20)
		asks(t, l, "b", 3)
		requeues(t, l, "a", 5)
		l.Forget("a")
		requeues(t, l, "a", 0)
		requeues(t, l, "b", 1)
		asks(t, l, "a", 3)
		asks(t, im.exponential(30, 20), "a", 20)

		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for range 100 {
					l.When("c")
					l.NumRequeues("c")
					l.Forget("d")
				}
			})
		}
		callers.Wait()
		requeues(t, l, "c", 800)
	})

	onBoth(t, "38: 5 ms to 1000 s", func(t *testing.T, im implementation) {
		l := im.exponential(5*time.Millisecond, 1000*time.Second)
		for n := range 18 {
			asks(t, l, "a", 5*time.Millisecond<<n)
		}
		requeues(t, l, "a", 18) // The last was 10m55.36s.
		for range 2500 {
			asks(t, l, "a", 1000*time.Second)
		}
	})

	// A quirk, fixed: a negative delay is a hot loop.
	onBoth(t, "39: no delay is negative", func(t *testing.T, im implementation) {
		l := im.exponential(1, math.MaxInt64)
		for n := range 100 {
			d := l.When("a")
			if negative := d < 0; negative != differs(im, false, n == 63) {
				t.Errorf("delay %d is %v", n+1, d)
			}
		}
	})

	onBoth(t, "40: fast, then slow", func(t *testing.T, im implementation) {
		l := im.fastSlow(1, 9, 3)
		asks(t, l, "a", 1, 1, 1, 9, 9)
		asks(t, l, "b", 1)
		requeues(t, l, "a", 5)
		l.Forget("a")
		requeues(t, l, "a", 0)
		asks(t, l, "a", 1)
	})

	onBoth(t, "41: bucket", func(t *testing.T, im implementation) {
		l := im.bucket(10, 100)
		for range 100 {
			asks(t, l, "a", 0)
		}
		after := func(item string, want time.Duration) {
			t.Helper()
			if d := l.When(item).Round(time.Microsecond); d != want { // The bucket counts tokens in floats.
				t.Errorf("%s waits %v, want %v", item, d, want)
			}
		}
		for n := range 50 {
			after("a", time.Duration(n+1)*100*time.Millisecond)
		}
		requeues(t, l, "a", 0)
		l.Forget("a")
		after("b", 51*100*time.Millisecond) // No token was returned, and the bucket is shared by all items.
		time.Sleep(time.Second)
		after("a", 42*100*time.Millisecond)
	})

	onBoth(t, "42: the maximum of several, of which each counts", func(t *testing.T, im implementation) {
		a, b := im.fastSlow(5, 3, 3), im.exponential(1, 100)
		b.When("a")
		l := im.maxOf(a, b)
		asks(t, l, "a", 5, 5, 8, 16)
		requeues(t, a, "a", 4)
		requeues(t, b, "a", 5)
		requeues(t, l, "a", 5)
		l.Forget("a")
		requeues(t, a, "a", 0)
		requeues(t, b, "a", 0)
		asks(t, im.maxOf(), "a", 0, 0)
		requeues(t, im.maxOf(), "a", 0)
	})

	onBoth(t, "43: a maximal wait caps When only", func(t *testing.T, im implementation) {
		inner := im.exponential(1, math.MaxInt64)
		l := im.maxWait(inner, 5)
		asks(t, l, "a", 1, 2, 4, 5, 5)
		requeues(t, inner, "a", 5)
		requeues(t, l, "a", 5)
		asks(t, inner, "a", 32)
		l.Forget("a")
		requeues(t, inner, "a", 0)
	})

	onBoth(t, "44: the defaults", func(t *testing.T, im implementation) {
		l := im.controllers()
		for n := range 18 {
			asks(t, l, "a", 5*time.Millisecond<<n)
		}
		asks(t, l, "a", 1000*time.Second, 1000*time.Second)
		requeues(t, l, "a", 20)
		l = im.items()
		for n := range 20 {
			asks(t, l, "a", time.Millisecond<<n)
		}
		asks(t, l, "a", 1000*time.Second, 1000*time.Second)
	})

	onBoth(t, "45: with the default the 101st item waits for the bucket", func(t *testing.T, im implementation) {
		l := im.controllers()
		for i := range 100 {
			asks(t, l, string(rune('a'+i)), 5*time.Millisecond)
		}
		asks(t, l, "the innocent", 100*time.Millisecond)
	})
}

// TestJitteredRateLimiter checks that a jittered limiter never returns less than its inner limiter,
// spreads evenly up to its factor, asks once, and passes everything else on.
func TestJitteredRateLimiter(t *testing.T) {
	inner := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
	l := workqueue.NewTypedJitteredRateLimiter(inner, 0.5)
	var low, high, sum float64 = 2, 0, 0
	const answers = 10_000
	for n := range answers {
		base := float64(min(time.Second<<min(n, 10), time.Minute))
		ratio := float64(l.When("a")) / base
		low, high, sum = min(low, ratio), max(high, ratio), sum+ratio
	}
	if low < 1 || high > 1.5 {
		t.Errorf("delays are between %v and %v times the inner limiter's, want 1 to 1.5", low, high)
	}
	if mean := sum / answers; mean < 1.23 || mean > 1.27 { // 14 standard errors
		t.Errorf("delays are %v times the inner limiter's on average, want 1.25", mean)
	}
	requeues(t, inner, "a", answers)
	requeues(t, l, "a", answers)
	l.Forget("a")
	requeues(t, inner, "a", 0)

	for _, factor := range []float64{0, -1, math.NaN(), math.Inf(-1)} {
		asks(t, workqueue.NewTypedJitteredRateLimiter[string](&script{delay: 8}, factor), "a", 8, 8, 8)
	}
	for _, limiter := range []*script{{delay: 0}, {delay: -5}} {
		asks(t, workqueue.NewTypedJitteredRateLimiter[string](limiter, 1), "a", limiter.delay)
	}
	for _, factor := range []float64{1, 1e300, math.Inf(1)} {
		long := workqueue.NewTypedJitteredRateLimiter[string](&script{delay: math.MaxInt64 - 1}, factor)
		for range 100 {
			if d := long.When("a"); d < math.MaxInt64-1 {
				t.Fatalf("a jitter of %v turned the longest delay into %v", factor, d)
			}
		}
	}
	capped := workqueue.NewTypedWithMaxWaitRateLimiter(l, time.Minute)
	for range 100 {
		if d := capped.When("b"); d < time.Second || d > time.Minute {
			t.Fatalf("a capped jittered limiter returned %v", d)
		}
	}
}
