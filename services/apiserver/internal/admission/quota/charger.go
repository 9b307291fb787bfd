package quota

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fence"
)

const (
	// commitTimeout bounds one update of a quota, whoever waits for it; Kubernetes' figure for
	// an evaluation.
	commitTimeout = 10 * time.Second
	// mostChains bounds what is remembered of quotas that were charged.
	mostChains = 10_000
)

// errUndecided is the outcome for those who wait for an update that panicked.
var errUndecided = errors.New("the quota was not evaluated")

// Update replaces a quota by what change gives, in one transaction guarded by its revision.
// change is called again when another writer was faster; it may change its argument. It fails
// with a NotFound API error if there is no such quota.
type Update func(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) (*corev1.ResourceQuota, error)) (*corev1.ResourceQuota, error)

// Charger charges quotas. Requests that wait for the same quota share one update. It may be
// used from any goroutine.
type Charger struct {
	update Update

	mu     sync.Mutex
	queues map[types.NamespacedName]*queue
	chains map[types.NamespacedName]chain
}

// New makes a charger of the quotas behind update.
func New(update Update) *Charger {
	return &Charger{update: update, queues: map[types.NamespacedName]*queue{}, chains: map[types.NamespacedName]chain{}}
}

// queue is who waits for one quota. Its first waiter commits for all while busy.
type queue struct {
	waiting []*waiter
	busy    bool
}

// chain is an unbroken row of updates of one quota by this charger: from and to are the first
// and the last one's revisions.
type chain struct{ from, to int64 }

// waiter is one change of one quota that is to be made.
type waiter struct {
	item Item
	back *charged // what to give back, in place of item

	turn chan struct{} // closed when the waiter must commit
	done chan struct{} // closed when the outcome is known
	got  charged
	err  error
}

// charged is what a quota was charged with, and at which revision.
type charged struct {
	key      types.NamespacedName
	added    corev1.ResourceList
	revision int64
}

// Try says whether quotas, as they are given, allow item. It charges nothing.
func (c *Charger) Try(quotas []*corev1.ResourceQuota, item Item) error {
	for _, q := range byName(quotas) {
		if _, err := Evaluate(q, item); err != nil {
			return err
		}
	}
	return nil
}

// Charge raises the usage of those of quotas that limit item, which may be given as they were a
// while ago. If one of them does not allow it (Refusal), or cannot be updated, what the others
// were charged is given back. The function that comes with success does that later, when the
// item was certainly not written; it may do less than all, never more.
func (c *Charger) Charge(ctx context.Context, quotas []*corev1.ResourceQuota, item Item) (func(context.Context), error) {
	var all []charged
	undo := func(ctx context.Context) {
		for _, one := range all {
			c.giveBack(ctx, one)
		}
	}
	for _, q := range likelyFirst(quotas, item) {
		// Whether it may be is up to the quota as it is in etcd, which may differ by now.
		w := newWaiter()
		w.item = item
		if err := c.submit(ctx, types.NamespacedName{Namespace: q.Namespace, Name: q.Name}, w); err != nil {
			undo(ctx)
			return nil, err
		}
		if len(w.got.added) > 0 {
			all = append(all, w.got)
		}
	}
	return undo, nil
}

// likelyFirst are those of quotas that limit item, those first that seem to refuse it, so that
// the others need not be charged in vain.
func likelyFirst(quotas []*corev1.ResourceQuota, item Item) []*corev1.ResourceQuota {
	var first, rest []*corev1.ResourceQuota
	for _, q := range byName(quotas) {
		added, err := Evaluate(q, item)
		switch {
		case err != nil:
			first = append(first, q)
		case len(added) > 0:
			rest = append(rest, q)
		}
	}
	return append(first, rest...)
}

func byName(quotas []*corev1.ResourceQuota) []*corev1.ResourceQuota {
	return slices.SortedFunc(slices.Values(quotas), func(a, b *corev1.ResourceQuota) int { return cmp.Compare(a.Name, b.Name) })
}

// giveBack lowers a quota by what it was charged with. It does so only if nobody else has
// written the quota since: who counted anew meanwhile may have left it out already, and taking
// it off twice would let the limit be passed.
func (c *Charger) giveBack(ctx context.Context, one charged) {
	w := newWaiter()
	w.back = &one
	// What cannot be given back stays charged until the controller counts anew.
	_ = c.submit(context.WithoutCancel(ctx), one.key, w)
}

func newWaiter() *waiter {
	return &waiter{turn: make(chan struct{}), done: make(chan struct{})}
}

// submit has w done, by this goroutine or by another that is at it already.
func (c *Charger) submit(ctx context.Context, key types.NamespacedName, w *waiter) error {
	c.mu.Lock()
	q := c.queues[key]
	if q == nil {
		q = &queue{}
		c.queues[key] = q
	}
	q.waiting = append(q.waiting, w)
	first := !q.busy
	q.busy = true
	c.mu.Unlock()
	if !first {
		select {
		case <-w.done:
			return w.err
		case <-w.turn:
		case <-ctx.Done():
			if c.withdraw(key, q, w) {
				return apierrors.NewTimeoutError("resource quota evaluation timed out", 0)
			}
			<-w.done // It is being decided, which takes no longer than commitTimeout.
			return w.err
		}
	}
	c.mu.Lock()
	batch := q.waiting
	q.waiting = nil
	c.mu.Unlock()
	defer c.pass(key, q)
	c.commit(ctx, key, batch)
	return w.err
}

// pass lets the next waiter commit.
func (c *Charger) pass(key types.NamespacedName, q *queue) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(q.waiting) > 0 {
		close(q.waiting[0].turn)
		return
	}
	delete(c.queues, key)
}

// withdraw takes w out of the queue; false if it is out already, to be decided.
func (c *Charger) withdraw(key types.NamespacedName, q *queue, w *waiter) bool {
	c.mu.Lock()
	at := slices.Index(q.waiting, w)
	if at >= 0 {
		q.waiting = slices.Delete(q.waiting, at, at+1)
	}
	c.mu.Unlock()
	if at < 0 {
		return false
	}
	select {
	case <-w.turn:
		c.pass(key, q) // It was to commit.
	default:
	}
	return true
}

// commit decides all of batch in one update of the quota.
func (c *Charger) commit(ctx context.Context, key types.NamespacedName, batch []*waiter) {
	// The others must not fail because the first one's client went away, or no longer leads. A
	// leader's fence is checked before and after: what is charged for a write that is refused is
	// given back.
	ctx, cancel := context.WithTimeout(fence.Without(context.WithoutCancel(ctx)), commitTimeout)
	defer cancel()
	for _, w := range batch {
		w.err = errUndecided
	}
	defer func() {
		for _, w := range batch {
			close(w.done)
		}
	}()
	c.mu.Lock()
	mine := c.chains[key]
	c.mu.Unlock()
	var based int64
	updated, err := c.update(ctx, key.Namespace, key.Name, func(q *corev1.ResourceQuota) (*corev1.ResourceQuota, error) {
		based = revision(q)
		for _, w := range batch {
			w.decide(q, mine, based)
		}
		return q, nil
	})
	if err != nil {
		for _, w := range batch {
			w.got, w.err = charged{}, err
			if apierrors.IsNotFound(err) { // A quota that is gone limits nothing.
				w.err = nil
			}
		}
		c.remember(key, chain{})
		return
	}
	now := revision(updated)
	for _, w := range batch {
		w.got.key, w.got.revision = key, now
	}
	if now == based {
		return // Nothing was charged.
	}
	if based != mine.to {
		mine.from = now
	}
	mine.to = now
	c.remember(key, mine)
}

// decide applies w to q, which is at revision based.
func (w *waiter) decide(q *corev1.ResourceQuota, mine chain, based int64) {
	w.got, w.err = charged{}, nil
	if w.back != nil {
		if mine.to == based && mine.from <= w.back.revision {
			q.Status.Used = minus(q.Status.Used, w.back.added)
		}
		return
	}
	added, err := Evaluate(q, w.item)
	if err != nil {
		w.err = err
		return
	}
	w.got.added = added
	if len(added) > 0 {
		q.Status.Used = plus(q.Status.Used, added)
	}
}

func (c *Charger) remember(key types.NamespacedName, is chain) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.chains) >= mostChains {
		clear(c.chains)
	}
	if is == (chain{}) {
		delete(c.chains, key)
		return
	}
	c.chains[key] = is
}

// revision is the etcd revision of a quota's last change.
func revision(q *corev1.ResourceQuota) int64 {
	n, _ := strconv.ParseInt(q.ResourceVersion, 10, 64)
	return n
}
