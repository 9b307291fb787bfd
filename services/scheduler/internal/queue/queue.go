// Package queue holds the pods that wait for a node (Kubernetes, pkg/scheduler/backend/queue).
//
// A pod waits in one of three places:
//   - active, by priority and then by age;
//   - backing off, after a failure, until its back-off ends;
//   - unschedulable, until something changes that may help it, or for five minutes.
package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

const (
	// initialBackoff doubles with each failure up to maxBackoff (Kubernetes,
	// podInitialBackoffSeconds and podMaxBackoffSeconds).
	initialBackoff = time.Second
	maxBackoff     = 10 * time.Second
	// unschedulableLimit bounds how long a pod waits for a change (Kubernetes,
	// DefaultPodMaxInUnschedulablePodsDuration).
	unschedulableLimit = 5 * time.Minute
)

// Item is a pod that Pop returned.
type Item struct {
	// Pod is the pod as last seen.
	Pod *corev1.Pod
	// Attempts is how often the pod was popped, this time included.
	Attempts int
	// Added is when the pod first entered the queue.
	Added time.Time

	entry *entry
}

// entry is a pod that waits or is out.
type entry struct {
	pod      *corev1.Pod
	attempts int
	added    time.Time
	// failed is when the pod was last given back.
	failed time.Time
	// filters are the ones that refused the pod last; if there are none, anything may help.
	filters []placement.Filter
	// number breaks ties in the order of arrival.
	number uint64
	place  place
	// seen is the number of moves that had been made when the pod was popped.
	seen uint64
}

type place uint8

const (
	active place = iota
	backingOff
	unschedulable
	// out: returned by Pop and not given back.
	out
)

// Queue holds the waiting pods. It is safe for concurrent use.
type Queue struct {
	mu      sync.Mutex
	entries map[types.UID]*entry
	number  uint64
	ready   entryHeap
	backoff entryHeap
	// outs are the entries that are out.
	outs map[*entry]struct{}
	// limit is no later than when the first unschedulable pod has waited long enough; zero when
	// there is none.
	limit time.Time
	// moves are the ones that an entry that is out may have missed; moved counts all.
	moves []move
	moved uint64
	wake  chan struct{}
}

// move is a change that may help pods that some filters refused; any pod if there are no filters.
type move struct {
	number  uint64
	filters []placement.Filter
	// concerns reports whether the change may help a pod; nil if it may help any.
	concerns func(*corev1.Pod) bool
}

// New returns an empty queue.
func New() *Queue {
	q := &Queue{entries: map[types.UID]*entry{}, outs: map[*entry]struct{}{}, wake: make(chan struct{}, 1)}
	q.ready.less = func(a, b *entry) bool {
		if pa, pb := priority(a.pod), priority(b.pod); pa != pb {
			return pa > pb
		}
		return a.number < b.number
	}
	q.backoff.less = func(a, b *entry) bool { return a.backoffEnds().Before(b.backoffEnds()) }
	return q
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// backoffEnds returns when the pod may be retried.
func (e *entry) backoffEnds() time.Time {
	backoff := initialBackoff
	for range e.attempts - 1 {
		if backoff *= 2; backoff >= maxBackoff {
			backoff = maxBackoff
			break
		}
	}
	return e.failed.Add(backoff)
}

// Set adds a pod or updates it. If the pod waits as unschedulable, a change that can help causes a
// retry. changed says that this is such a change (a status write is not).
func (q *Queue) Set(pod *corev1.Pod, changed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[pod.UID]
	if e == nil {
		q.number++
		e = &entry{pod: pod, added: time.Now(), number: q.number}
		q.entries[pod.UID] = e
		q.activate(e)
		return
	}
	e.pod = pod
	switch {
	case e.place == active:
		q.ready.fix(e)
	case e.place == unschedulable && changed:
		q.requeue(e)
	case e.place == out && changed:
		// Whatever the attempt's outcome, it used an old state.
		uid := pod.UID
		q.note(move{concerns: func(p *corev1.Pod) bool { return p.UID == uid }})
	}
}

// Delete forgets a pod.
func (q *Queue) Delete(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.entries[uid]
	if e == nil {
		return
	}
	delete(q.entries, uid)
	switch e.place {
	case active:
		q.ready.remove(e)
	case backingOff:
		q.backoff.remove(e)
	case out:
		delete(q.outs, e)
		q.trim()
	}
}

// Pop waits for a pod to try. The pod is out until Unschedulable, Retry or Delete.
func (q *Queue) Pop(ctx context.Context) (Item, error) {
	for {
		item, wait := q.next()
		if item.entry != nil {
			return item, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Item{}, context.Cause(ctx)
		case <-q.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// idle bounds the sleep of Pop when no timer is set.
const idle = time.Hour

// next returns the next pod, or the time until there may be one.
func (q *Queue) next() (Item, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	wait := min(idle, q.expire(now))
	for q.backoff.len() > 0 {
		first := q.backoff.entries[0]
		if left := first.backoffEnds().Sub(now); left > 0 {
			wait = min(wait, left)
			break
		}
		q.backoff.remove(first)
		q.activate(first)
	}
	if q.ready.len() == 0 {
		return Item{}, wait
	}
	e := q.ready.entries[0]
	q.ready.remove(e)
	e.place, e.seen = out, q.moved
	e.attempts++
	q.outs[e] = struct{}{}
	return Item{Pod: e.pod, Attempts: e.attempts, Added: e.added, entry: e}, 0
}

// expire requeues pods that have been unschedulable for long enough, and returns the time until the
// next one may be.
func (q *Queue) expire(now time.Time) time.Duration {
	if q.limit.IsZero() {
		return idle
	}
	if left := q.limit.Sub(now); left > 0 {
		return left
	}
	q.limit = time.Time{}
	for _, e := range q.entries {
		if e.place != unschedulable {
			continue
		}
		if end := e.failed.Add(unschedulableLimit); end.After(now) {
			q.limitAt(end)
		} else {
			q.requeue(e)
		}
	}
	if q.limit.IsZero() {
		return idle
	}
	return q.limit.Sub(now)
}

func (q *Queue) limitAt(end time.Time) {
	if q.limit.IsZero() || end.Before(q.limit) {
		q.limit = end
	}
}

// giveBack marks an item as given back, and reports whether it was still out.
func (q *Queue) giveBack(item Item) bool {
	if _, isOut := q.outs[item.entry]; !isOut {
		return false
	}
	delete(q.outs, item.entry)
	item.entry.failed = time.Now()
	return true
}

// Unschedulable gives back a pod that filters refused. The pod is retried after its back-off if a
// change since Pop may help it.
func (q *Queue) Unschedulable(item Item, filters []placement.Filter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.giveBack(item) {
		return
	}
	defer q.trim()
	e := item.entry
	e.filters = filters
	for _, m := range q.moves {
		if m.number > e.seen && m.helps(e) {
			q.back(e)
			return
		}
	}
	e.place = unschedulable
	q.limitAt(e.failed.Add(unschedulableLimit))
	q.wakeUp() // Pop's sleep must not be longer than the pod's limit.
}

// Retry gives back a pod whose placement or binding failed for another reason than that no node
// fits. It is retried after its back-off.
func (q *Queue) Retry(item Item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.giveBack(item) {
		return
	}
	item.entry.filters = nil
	q.back(item.entry)
	q.trim()
}

// Move signals that something has changed that may help pods that one of filters refused; any pod
// if no filter is named.
func (q *Queue) Move(filters ...placement.Filter) {
	q.move(move{filters: filters})
}

// MoveThose is Move for a change that may help only the pods for which concerns returns true.
// concerns is called while the queue is locked.
func (q *Queue) MoveThose(concerns func(*corev1.Pod) bool, filters ...placement.Filter) {
	q.move(move{filters: filters, concerns: concerns})
}

func (q *Queue) move(m move) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.note(m)
	for _, e := range q.entries {
		if e.place == unschedulable && m.helps(e) {
			q.requeue(e)
		}
	}
}

// note records a move for the pods that are out now.
func (q *Queue) note(m move) {
	q.moved++
	m.number = q.moved
	if len(q.outs) > 0 {
		q.moves = append(q.moves, m)
	}
}

// trim forgets the moves that no pod that is out can have missed.
func (q *Queue) trim() {
	oldest := q.moved
	for e := range q.outs {
		oldest = min(oldest, e.seen)
	}
	q.moves = slices.DeleteFunc(q.moves, func(m move) bool { return m.number <= oldest })
}

func (m move) helps(e *entry) bool {
	if m.concerns != nil && !m.concerns(e.pod) {
		return false
	}
	if len(m.filters) == 0 || len(e.filters) == 0 {
		return true
	}
	return slices.ContainsFunc(m.filters, func(f placement.Filter) bool { return slices.Contains(e.filters, f) })
}

// requeue moves an unschedulable pod to the active or the back-off place.
func (q *Queue) requeue(e *entry) {
	if time.Now().Before(e.backoffEnds()) {
		q.back(e)
		return
	}
	q.activate(e)
}

func (q *Queue) back(e *entry) {
	e.place = backingOff
	q.backoff.add(e)
	q.wakeUp()
}

func (q *Queue) activate(e *entry) {
	e.place = active
	q.ready.add(e)
	q.wakeUp()
}

func (q *Queue) wakeUp() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Counts are the numbers of pods in each place, for metrics.
type Counts struct{ Active, BackingOff, Unschedulable int }

// Counts counts the waiting pods.
func (q *Queue) Counts() Counts {
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := Counts{Active: q.ready.len(), BackingOff: q.backoff.len()}
	counts.Unschedulable = len(q.entries) - counts.Active - counts.BackingOff - len(q.outs)
	return counts
}
