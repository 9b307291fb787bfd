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
	// commitTimeout bounds one update of a quota, whoever waits for it. It is Kubernetes' value for
	// an evaluation.
	commitTimeout = 10 * time.Second
	// mostChains bounds the number of quotas whose chains are remembered.
	mostChains = 10_000
)

// errUndecided is the outcome for waiters whose update panicked.
var errUndecided = errors.New("the quota was not evaluated")

// Update replaces a quota by what change returns, in one transaction guarded by its revision.
// change is called again if another writer was faster; it may change its argument. Update fails
// with a NotFound API error if the quota doesn't exist.
type Update func(ctx context.Context, namespace, name string, change func(*corev1.ResourceQuota) (*corev1.ResourceQuota, error)) (*corev1.ResourceQuota, error)

// Charger charges quotas. Requests that wait for the same quota share one update. Any goroutine may
// use it.
type Charger struct {
	update Update

	mu     sync.Mutex
	queues map[types.NamespacedName]*queue
	chains map[types.NamespacedName]chain
}

// New returns a charger of the quotas behind update.
func New(update Update) *Charger {
	return &Charger{update: update, queues: map[types.NamespacedName]*queue{}, chains: map[types.NamespacedName]chain{}}
}

// queue holds the waiters of one quota. The first waiter commits for all while busy is true.
type queue struct {
	waiting []*waiter
	busy    bool
}

// chain is an unbroken sequence of updates of one quota by this charger: from and to are the
// revisions of the first and the last update.
type chain struct{ from, to int64 }

// waiter is one pending change of one quota.
type waiter struct {
	item Item
	back *charged // what to give back, instead of charging item

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

// Try returns a Refusal if quotas, as given, don't allow item. It charges nothing.
func (c *Charger) Try(quotas []*corev1.ResourceQuota, item Item) error {
	for _, q := range byName(quotas) {
		if _, err := Evaluate(q, item); err != nil {
			return err
		}
	}
	return nil
}

// Charge raises the usage of those of quotas that limit item; the given quotas may be out of date.
// If one of them doesn't allow the item (Refusal), or cannot be updated, Charge gives back what it
// has charged to the others. The returned function gives everything back later. It must only be
// called if the item certainly was not written, and may give back less than was charged, never
// more.
func (c *Charger) Charge(ctx context.Context, quotas []*corev1.ResourceQuota, item Item) (func(context.Context), error) {
	var all []charged
	undo := func(ctx context.Context) {
		for _, one := range all {
			c.giveBack(ctx, one)
		}
	}
	for _, q := range likelyFirst(quotas, item) {
		// The quota in etcd, which may differ by now, decides.
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

// likelyFirst returns those of quotas that limit item. The ones that seem to refuse it come first,
// so that the others need not be charged in vain.
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

// giveBack lowers a quota by what it was charged with, but only if no other writer has written the
// quota since. Another writer that has recounted the usage may have left the item out already, and
// subtracting it twice would let the limit be exceeded.
func (c *Charger) giveBack(ctx context.Context, one charged) {
	w := newWaiter()
	w.back = &one
	// If this fails, the item stays charged until the controller recounts the usage.
	_ = c.submit(context.WithoutCancel(ctx), one.key, w)
}

func newWaiter() *waiter {
	return &waiter{turn: make(chan struct{}), done: make(chan struct{})}
}

// submit has w committed, by this goroutine or by another one that is already at work.
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
			<-w.done // A commit is under way and takes no longer than commitTimeout.
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

// withdraw removes w from the queue. It returns false if a commit has already taken w.
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
		c.pass(key, q) // It was w's turn to commit.
	default:
	}
	return true
}

// commit decides all of batch in one update of the quota.
func (c *Charger) commit(ctx context.Context, key types.NamespacedName, batch []*waiter) {
	// The other waiters must not fail because the first one's client went away, or no longer leads.
	// A leader's fence is checked before and after: a charge for a write that is refused is given
	// back.
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
			if apierrors.IsNotFound(err) { // A deleted quota limits nothing.
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

// revision returns the etcd revision of a quota's last change.
func revision(q *corev1.ResourceQuota) int64 {
	n, _ := strconv.ParseInt(q.ResourceVersion, 10, 64)
	return n
}
