// Package prioritytest compares the queue with priorities with controller-runtime's. It is separate
// from the other tests of work queues because controller-runtime sets client-go's metrics provider
// for the whole process.
package prioritytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	upstream "k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// TestPriorityQueueSameAsItsModel runs random scripts on controller-runtime's priority queue and on
// ours, each against one model, which states where the two differ. Half of the scripts avoid these
// differences; for them the test also compares all metrics of the two queues (checklist 155 and 157
// in combination).
func TestPriorityQueueSameAsItsModel(t *testing.T) {
	n := 300
	if testing.Short() {
		n = shortSeeds
	}
	for seed := range uint64(n) {
		if difference := compare(t, seed); difference != "" {
			t.Fatalf("seed %d: %s", seed, difference)
		}
	}
}

const shortSeeds = 60

var scriptKeys = []string{"a", "b", "c", "d", "e"}

// priorityModel is a queue with priorities, as slow and plain as possible.
type priorityModel struct {
	// theirs means that it models controller-runtime's queue.
	theirs  bool
	entries map[string]*modelEntry
	held    []string
	number  int
	// failures are the failures that the rate limiter counts.
	failures             map[string]int
	depth, adds, retries int
	// waiting is the number of blocked Gets; answers are their results.
	waiting int
	answers []string
}

type modelEntry struct {
	priority, number int
	// at is when the item is due; ready means that it was due.
	at    time.Time
	ready bool
	// parked is only for our queue: the item is queued after Done.
	parked bool
}

func (m *priorityModel) add(item string, o workqueue.AddOpts) {
	after := o.After
	if o.RateLimited {
		if limited := 3 * time.Millisecond << m.failures[item]; after <= 0 || limited < after {
			after = limited
		}
		m.failures[item]++
	}
	if after > 0 {
		m.retries++
	}
	e := m.entries[item]
	if e == nil {
		m.number++
		e = &modelEntry{priority: o.Priority, number: m.number, at: time.Now().Add(after)}
		m.entries[item] = e
		if after <= 0 {
			m.queue(item, e)
		}
		return
	}
	if o.Priority > e.priority {
		e.priority = o.Priority
		m.number++
		e.number = m.number
	}
	switch {
	case e.ready || e.parked:
	case after <= 0:
		if !m.theirs { // Controller-runtime orders it by when it began to wait.
			m.number++
			e.number = m.number
		}
		m.queue(item, e)
	case time.Now().Add(after).Before(e.at):
		e.at = time.Now().Add(after)
	}
}

func (m *priorityModel) queue(item string, e *modelEntry) {
	m.adds++
	m.depth++
	if !m.theirs && slices.Contains(m.held, item) { // Controller-runtime queues it, but skips it.
		e.parked = true
		return
	}
	e.ready = true
	m.serve()
}

// next returns the item to be handed out, if any.
func (m *priorityModel) next() (item string) {
	for key, e := range m.entries {
		if !e.ready || slices.Contains(m.held, key) {
			continue
		}
		best := m.entries[item]
		if best == nil || e.priority > best.priority || (e.priority == best.priority && e.number < best.number) {
			item = key
		}
	}
	return item
}

func (m *priorityModel) take() string {
	item := m.next()
	answer := fmt.Sprintf("%s at %d", item, m.entries[item].priority)
	m.depth--
	m.held = append(m.held, item)
	delete(m.entries, item)
	return answer
}

// serve hands queued items to blocked Gets.
func (m *priorityModel) serve() {
	for m.waiting > 0 && m.next() != "" {
		m.waiting--
		m.answers = append(m.answers, m.take())
	}
}

func (m *priorityModel) done(item string) {
	m.held = slices.DeleteFunc(m.held, func(h string) bool { return h == item })
	if e := m.entries[item]; e != nil && e.parked {
		m.number++
		e.parked, e.ready, e.number = false, true, m.number
	}
	m.serve()
}

// pass advances the time, so that items fall due.
func (m *priorityModel) pass(until time.Time) {
	for {
		var due string
		for key, e := range m.entries {
			if !e.ready && !e.parked && !e.at.After(until) && (due == "" || e.at.Before(m.entries[due].at)) {
				due = key
			}
		}
		if due == "" {
			return
		}
		m.number++
		m.entries[due].number = m.number
		m.queue(due, m.entries[due])
	}
}

func (m *priorityModel) len() int {
	n := 0
	for _, e := range m.entries {
		if e.ready {
			n++
		}
	}
	return n
}

func (m *priorityModel) String() string {
	slices.Sort(m.answers)
	return fmt.Sprintf("len %d depth %d adds %d retries %d failures %v blocked gets returned %v",
		m.len(), m.depth, m.adds, m.retries, m.failures, m.answers)
}

// prioritySide is a queue with its model.
type prioritySide struct {
	model   *priorityModel
	metrics record
	q       interface {
		workqueue.TypedRateLimitingInterface[string]
		GetWithPriority() (string, int, bool)
	}
	addWithOpts func(workqueue.AddOpts, string)

	mu      sync.Mutex
	answers []string
}

func newPrioritySides() []*prioritySide {
	us, them := &prioritySide{}, &prioritySide{}
	mine := workqueue.NewTypedPriorityQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](3*time.Millisecond, time.Hour),
		workqueue.TypedPriorityQueueConfig[string]{Name: "q", MetricsProvider: ours{&us.metrics}})
	us.q, us.addWithOpts = mine, func(o workqueue.AddOpts, item string) { mine.AddWithOpts(o, item) }
	other := priorityqueue.New("q", func(o *priorityqueue.Opts[string]) {
		o.RateLimiter = upstream.NewTypedItemExponentialFailureRateLimiter[string](3*time.Millisecond, time.Hour)
		o.MetricProvider = theirs{&them.metrics}
	})
	them.q, them.addWithOpts = other, func(o workqueue.AddOpts, item string) {
		other.AddWithOpts(priorityqueue.AddOpts{After: o.After, RateLimited: o.RateLimited, Priority: &o.Priority}, item)
	}
	for i, s := range []*prioritySide{us, them} {
		s.model = &priorityModel{theirs: i == 1, entries: map[string]*modelEntry{}, failures: map[string]int{}}
	}
	return []*prioritySide{us, them}
}

// mended reports whether the operation reaches a difference between the models.
func (s *prioritySide) mended(item string, o workqueue.AddOpts) bool {
	e := s.model.entries[item]
	return slices.Contains(s.model.held, item) || (e != nil && !e.ready && o.After <= 0)
}

func (s *prioritySide) get() (answer string) {
	if s.model.next() == "" {
		if s.model.waiting == 2 {
			return "two gets block"
		}
		s.model.waiting++
		go func() {
			item, priority, shutdown := s.q.GetWithPriority()
			s.mu.Lock()
			defer s.mu.Unlock()
			if !shutdown {
				s.answers = append(s.answers, fmt.Sprintf("%s at %d", item, priority))
			}
		}()
		return "get blocks"
	}
	item, priority, shutdown := s.q.GetWithPriority()
	got, want := fmt.Sprintf("%s at %d", item, priority), s.model.take()
	if got != want || shutdown {
		return fmt.Sprintf("get returned %s (shutdown %v), WANT %s", got, shutdown, want)
	}
	return "get " + got
}

func (s *prioritySide) observe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	failures := map[string]int{}
	for _, key := range scriptKeys {
		if n := s.q.NumRequeues(key); n > 0 {
			failures[key] = n
		}
	}
	slices.Sort(s.answers)
	seen := fmt.Sprintf("len %d depth %d adds %d retries %d failures %v blocked gets returned %v", s.q.Len(),
		s.metrics.sum("depth"), s.metrics.sum("adds"), s.metrics.sum("retries"), failures, s.answers)
	if want := s.model.String(); seen != want {
		seen += ", WANT " + want
	}
	s.answers, s.model.answers = nil, nil
	return seen
}

// compare runs one script, and returns the first difference, or nothing.
func compare(t *testing.T, seed uint64) (difference string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sides := newPrioritySides()
		random := rand.New(rand.NewPCG(seed, 3))
		gentle := seed%2 == 0
		time.Sleep(500 * time.Nanosecond)
		var trace []string
		for range 150 {
			op, item, pick := random.IntN(100), scriptKeys[random.IntN(len(scriptKeys))], random.IntN(1<<16)
			opts := workqueue.AddOpts{Priority: []int{0, 0, workqueue.LowPriority, 7}[random.IntN(4)]}
			if random.IntN(3) == 0 {
				opts.After = time.Duration(random.IntN(30)+1) * time.Millisecond
			}
			if random.IntN(4) == 0 {
				opts.RateLimited = true
			}
			pause := time.Duration(random.IntN(20)) * time.Millisecond
			time.Sleep(time.Microsecond)
			synctest.Wait()
			var lines [2]string
			for _, s := range sides {
				s.model.pass(time.Now())
			}
			skip := gentle && sides[0].mended(item, opts)
			for i, s := range sides {
				lines[i] = s.step(op, item, opts, pick, skip)
			}
			if op >= 90 {
				time.Sleep(pause)
			}
			synctest.Wait()
			for i, s := range sides {
				s.model.pass(time.Now())
				lines[i] += ": " + s.observe()
			}
			trace = append(trace, "ours "+lines[0]+"\n    theirs "+lines[1])
			a, b := sides[0].metrics.String(), sides[1].metrics.String()
			if strings.Contains(lines[0]+lines[1], "WANT") || (gentle && (lines[0] != lines[1] || a != b)) {
				difference = fmt.Sprintf("%s\nour metrics %s, theirs %s", strings.Join(trace[max(0, len(trace)-10):], "\n"), a, b)
				break
			}
		}
		sides[1].q.ShutDown()
		if left := sides[0].handOutTheRest(); difference == "" {
			difference = left
		}
	})
	return difference
}

func (s *prioritySide) step(op int, item string, opts workqueue.AddOpts, pick int, skip bool) string {
	switch {
	case op < 40:
		if skip {
			return "skipped"
		}
		s.addWithOpts(opts, item)
		s.model.add(item, opts)
		return fmt.Sprintf("add %s %+v", item, opts)
	case op < 65:
		return s.get()
	case op < 85:
		if len(s.model.held) == 0 {
			return "nothing is held"
		}
		slices.Sort(s.model.held)
		item := s.model.held[pick%len(s.model.held)]
		s.q.Done(item)
		s.model.done(item)
		return "done " + item
	case op < 90:
		s.q.Forget(item)
		delete(s.model.failures, item)
		return "forget " + item
	default:
		return "time"
	}
}

// handOutTheRest shuts the queue down. All queued items must come, and delayed items must not.
func (s *prioritySide) handOutTheRest() string {
	s.q.ShutDown()
	synctest.Wait()
	s.model.waiting = 0
	s.addWithOpts(workqueue.AddOpts{Priority: 1000}, "late")
	for s.model.next() != "" || len(s.model.held) > 0 {
		if s.model.next() == "" {
			item := s.model.held[0]
			s.q.Done(item)
			s.model.done(item)
			continue
		}
		if s.q.Len() == 0 {
			return "after the shutdown fewer items are queued than expected"
		}
		if answer := s.get(); strings.Contains(answer, "WANT") {
			return "after the shutdown " + answer
		}
	}
	if item, shutdown := s.q.Get(); !shutdown {
		return "after the shutdown and everything else, Get returned " + item
	}
	return ""
}
