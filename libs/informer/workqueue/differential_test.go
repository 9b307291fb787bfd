package workqueue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// The differential test runs random scripts on client-go's rate limiting queue, over its delaying
// queue, over its queue, and on ours, in one bubble of synthetic time. After each step it compares
// everything observable: Len, ShuttingDown, NumRequeues of each key, the results of Get and of
// blocked Gets, whether a drain has returned, the calls of the underlying Queue, and all seven
// metrics.
//
// Scripts leave out what this package fixes and the checklist's tests cover: Done of a key that no
// worker holds (12), several drains (11), a drain after a shutdown of the delaying queue (31), keys
// due at one instant (25).

// seeds is the number of scripts, shortSeeds the number with -short. The mutants of mutants_test.go
// must be found within shortSeeds.
const (
	seeds      = 500
	shortSeeds = 60
)

// TestSameAsClientGo covers checklist 1-9, 13, 20-24, 26, 30, 34-37, 50 and 51 in combination.
func TestSameAsClientGo(t *testing.T) {
	n := seeds
	if testing.Short() {
		n = shortSeeds
	}
	for seed := range uint64(n) {
		if difference := compare(t, seed, ours()); difference != "" {
			t.Fatalf("seed %d: %s", seed, difference)
		}
	}
}

var scriptKeys = []string{"a", "b", "c", "d", "e"}

// side is one of the two compared queues, with everything observable about it.
type side struct {
	im      implementation
	q       workqueue.TypedRateLimitingInterface[string]
	metrics *recorded
	order   *spy
	held    []string
	drained atomic.Bool

	mu sync.Mutex
	// waiting is the number of blocked Gets; answers are their results since the last observation.
	waiting int
	answers []string
}

func newSide(im implementation, seed uint64) *side {
	s := &side{im: im, metrics: &recorded{}}
	options := settings{name: "q", metrics: s.metrics}
	limiter := im.maxOf(im.exponential(7*time.Millisecond, time.Second), im.fastSlow(time.Millisecond, 20*time.Millisecond, 3))
	if seed%2 == 1 { // with an underlying Queue of the test's own, and each layer passed to the next
		s.order = &spy{Queue: im.defaultsQueue()}
		beneath := options
		beneath.order = s.order
		options.beneath = im.queue(beneath)
		options.delaying = im.delaying(options)
		limiter = im.maxWait(limiter, 30*time.Millisecond)
	}
	s.q = im.limiting(limiter, options)
	return s
}

// compare runs one script on both sides, and returns the first difference, or nothing.
func compare(t *testing.T, seed uint64, im implementation) (difference string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sides := []*side{newSide(clientGo(), seed), newSide(im, seed)}
		var trace []string
		random := rand.New(rand.NewPCG(seed, 1))
		// Metrics are sampled at multiples of 500 ms from now; nothing else happens at these
		// instants.
		time.Sleep(500 * time.Nanosecond)
		down := false
		for step := range 150 {
			op, key, pick := random.IntN(100), scriptKeys[random.IntN(len(scriptKeys))], random.IntN(1<<16)
			delay := time.Duration(random.IntN(40)-3) * time.Millisecond
			if op >= 98 && step < 60 {
				op = 0
			}
			// A microsecond for each step: no two due instants are equal, and none is now.
			time.Sleep(time.Microsecond)
			synctest.Wait()
			var seen [2]string
			for i, s := range sides {
				seen[i] = s.step(op, key, delay, pick, down)
			}
			switch {
			case op >= 98:
				down = true
			case op == 97:
				time.Sleep(delay * 20)
			case op >= 92:
				time.Sleep(delay)
			}
			synctest.Wait()
			for i, s := range sides {
				seen[i] += s.observe()
			}
			trace = append(trace, seen[0])
			if seen[0] != seen[1] {
				difference = fmt.Sprintf("step %d\n%s\nclient-go: %s\nours:      %s",
					step, strings.Join(trace[max(0, step-10):step], "\n"), seen[0], seen[1])
				break
			}
		}
		for _, s := range sides {
			s.q.ShutDown()
			synctest.Wait() // for the blocked Gets
			s.observe()
			for _, key := range s.held {
				s.q.Done(key)
			}
		}
		// Client-go's waiting loop notices a drain only at its next heartbeat.
		time.Sleep(11 * time.Second)
	})
	return difference
}

// step does one operation, and returns its description and result.
func (s *side) step(op int, key string, delay time.Duration, pick int, down bool) string {
	switch {
	case op < 22:
		s.q.Add(key)
		return "add " + key
	case op < 46:
		return s.get()
	case op < 68:
		if len(s.held) == 0 {
			return "nothing is held"
		}
		i := pick % len(s.held)
		key := s.held[i]
		s.held = slices.Delete(s.held, i, i+1)
		s.q.Done(key)
		return "done " + key
	case op < 78:
		s.q.AddAfter(key, delay)
		return fmt.Sprintf("add %s after %v", key, delay)
	case op < 84:
		s.q.AddRateLimited(key)
		return "add rate limited " + key
	case op < 88:
		s.q.Forget(key)
		return "forget " + key
	case op < 98:
		return "time"
	case !down && pick%2 == 0:
		go func() {
			s.q.ShutDownWithDrain()
			s.drained.Store(true)
		}()
		return "drain"
	default:
		s.q.ShutDown()
		return "shut down"
	}
}

// get takes an item; if there is none, up to two Gets block in the background.
func (s *side) get() string {
	if s.q.Len() > 0 || s.q.ShuttingDown() {
		item, shutdown := s.q.Get()
		if !shutdown {
			s.held = append(s.held, item)
		}
		return fmt.Sprintf("get %q %v", item, shutdown)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 2 {
		return "two gets block"
	}
	s.waiting++
	go func() {
		item, shutdown := s.q.Get()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting--
		s.answers = append(s.answers, fmt.Sprintf("%q %v", item, shutdown))
		if !shutdown {
			s.held = append(s.held, item)
		}
	}()
	return "get blocks"
}

func (s *side) observe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	// Which of two Gets wakes up first is random.
	slices.Sort(s.answers)
	slices.Sort(s.held)
	fmt.Fprintf(&b, ": blocked gets returned %v; len %d down %v drained %v requeues", s.answers, s.q.Len(), s.q.ShuttingDown(), s.drained.Load())
	s.answers = nil
	for _, key := range scriptKeys {
		fmt.Fprintf(&b, " %d", s.q.NumRequeues(key))
	}
	fmt.Fprintf(&b, " metrics %v", s.metrics)
	if s.order != nil {
		fmt.Fprintf(&b, " order %v", s.order.take())
	}
	return b.String()
}

// TestLimitersSameAsClientGo makes random calls of all limiters, in all combinations of two, and
// expects client-go's results (checklist 37-43).
func TestLimitersSameAsClientGo(t *testing.T) {
	limiters := func(im implementation) map[string]workqueue.TypedRateLimiter[string] {
		made := map[string]workqueue.TypedRateLimiter[string]{
			"exponential": im.exponential(3*time.Millisecond, 5*time.Second),
			"odd":         im.exponential(7, 1<<62),
			"fast slow":   im.fastSlow(time.Millisecond, time.Second, 4),
			"bucket":      im.bucket(7, 5),
			"items":       im.items(),
			"controllers": im.controllers(),
			"none":        im.maxOf(),
		}
		// No base is a power of two, because of item 39.
		made["max"] = im.maxOf(im.exponential(3, 1000), im.fastSlow(64, 2, 3))
		made["capped"] = im.maxWait(im.maxOf(im.bucket(3, 2), im.exponential(5, 1<<40)), 2*time.Second)
		return made
	}
	synctest.Test(t, func(t *testing.T) {
		us, them := limiters(ours()), limiters(clientGo())
		var names []string
		for name := range us {
			names = append(names, name)
		}
		slices.Sort(names)
		random := rand.New(rand.NewPCG(1, 2))
		for call := range 50_000 {
			name, key, op := names[random.IntN(len(names))], scriptKeys[random.IntN(len(scriptKeys))], random.IntN(100)
			switch {
			case op < 90:
				if a, b := us[name].When(key), them[name].When(key); a != b {
					t.Fatalf("call %d: %s.When(%s) is %v, client-go's %v", call, name, key, a, b)
				}
			case op < 92:
				us[name].Forget(key)
				them[name].Forget(key)
			case op < 95:
				time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
			}
			if a, b := us[name].NumRequeues(key), them[name].NumRequeues(key); a != b {
				t.Fatalf("call %d: %s.NumRequeues(%s) is %d, client-go's %d", call, name, key, a, b)
			}
		}
	})
}
