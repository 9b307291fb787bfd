package controller

import (
	"context"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/informer/reconcile"
)

const (
	// restFactor is for how many times as long as its last reconcile took a key rests. So a key whose
	// object changes all the time has a worker for at most a quarter of the time.
	restFactor = 3
	// longestRest bounds the rest. A user does not notice it.
	longestRest = 100 * time.Millisecond
	// While more than crowdSize keys are reconciled within a second, each rests at least crowdRest for every one of
	// them, and at most longestInCrowd: much changes then, and a status that is written at once is soon out of date.
	// The bound is kube-proxy's minSyncPeriod, for which it lets changes of EndpointSlices wait.
	crowdSize      = 20
	crowdRest      = 40 * time.Millisecond
	longestInCrowd = time.Second
	// sweepSize is for how many keys the rests are kept before those that are over are removed.
	sweepSize = 1024
)

// paced returns a reconcile that lets a key rest after it, in proportion to what it took. The changes that
// arrive meanwhile are one reconcile, and one write of a status. Without it, a set of a thousand pods that
// become ready is counted a thousand times.
func paced(next reconcile.Func[Key]) reconcile.Func[Key] {
	rests := &rests{until: map[Key]time.Time{}, sweep: sweepSize, seen: map[Key]struct{}{}}
	return func(ctx context.Context, key Key) (reconcile.Result, error) {
		began := time.Now()
		if left := rests.left(key, began); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
		result, err := next(ctx, key)
		if err == nil { // A failed reconcile is repeated after the queue's back-off.
			now := time.Now()
			rests.begin(key, now, now.Sub(began))
		}
		return result, err
	}
}

// rests are the keys that rest.
type rests struct {
	mu    sync.Mutex
	until map[Key]time.Time
	sweep int // how many there are when those that are over are removed

	second time.Time        // when the present second began
	seen   map[Key]struct{} // the keys that were reconciled in it
	crowd  int              // how many there were in the second before
}

// left returns for how long a key still rests.
func (r *rests) left(key Key, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	until, rests := r.until[key]
	if !rests {
		return 0
	}
	if left := until.Sub(now); left > 0 {
		return left
	}
	delete(r.until, key)
	return 0
}

// begin lets a key rest after a reconcile that took so long.
func (r *rests) begin(key Key, now time.Time, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := min(restFactor*took, longestRest)
	if crowd := r.count(key, now); crowd > crowdSize {
		rest = max(rest, min(time.Duration(crowd)*crowdRest, longestInCrowd))
	}
	if rest <= 0 {
		return
	}
	r.until[key] = now.Add(rest)
	if len(r.until) <= r.sweep {
		return
	}
	for key, until := range r.until {
		if !until.After(now) {
			delete(r.until, key)
		}
	}
	r.sweep = max(sweepSize, 2*len(r.until))
}

// count notes that a key was reconciled, and returns how many keys were within a second.
func (r *rests) count(key Key, now time.Time) int {
	if age := now.Sub(r.second); age >= time.Second {
		r.crowd = len(r.seen)
		if age >= 2*time.Second {
			r.crowd = 0
		}
		r.second = now
		clear(r.seen)
	}
	r.seen[key] = struct{}{}
	return max(r.crowd, len(r.seen))
}
