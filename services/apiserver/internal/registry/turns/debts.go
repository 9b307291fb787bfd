package turns

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

const (
	// share is the part of one processor that a user's failed validations may take for long.
	share = 1.0 / 16
	// allowed is the time that they may take at once.
	allowed = 50 * time.Millisecond
	// users is of how many users debts are known; those who sent costly objects last stay.
	users = 4096
)

// debts is the time that each user's failed validations took.
type debts struct {
	mu   sync.Mutex
	each *lru.Cache
}

func newDebts() *debts { return &debts{each: lru.New(users)} }

// of returns the debt of a user.
func (d *debts) of(user string) *debt {
	d.mu.Lock()
	defer d.mu.Unlock()
	known, _ := d.each.Get(user)
	if one, ok := known.(*debt); ok {
		return one
	}
	one := &debt{semaphore.NewWeighted(1), rate.NewLimiter(rate.Limit(share*float64(time.Second)), int(allowed))}
	d.each.Add(user, one)
	return one
}

// debt is the time, in nanoseconds, that the failed validations of one user took beyond what is allowed. It is paid
// off by waiting.
type debt struct {
	next *semaphore.Weighted
	left *rate.Limiter
}

// open reports whether there is a debt.
func (d *debt) open() bool { return d.left.Tokens() < 0 }

// wait returns at once unless there is a debt. Then it waits, as it reports, for the validations that waited before to
// end, and until there is none. The returned function lets the next one go on.
func (d *debt) wait(ctx context.Context) (release func(), waited bool, err error) {
	if !d.open() {
		return func() {}, false, nil
	}
	if err := d.next.Acquire(ctx, 1); err != nil {
		return nil, false, err
	}
	if err := d.left.WaitN(ctx, 0); err != nil {
		d.next.Release(1)
		return nil, false, err
	}
	return func() { d.next.Release(1) }, true, nil
}

// add adds what a failed validation took.
func (d *debt) add(took time.Duration) {
	for now := time.Now(); took > 0; took -= allowed {
		d.left.ReserveN(now, int(min(took, allowed)))
	}
}
