package controller

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/contention"
)

const (
	// restFactor is for how many times as long as its last reconcile took a key rests. So a key whose
	// object changes all the time has a worker for at most a quarter of the time.
	restFactor = 3
	// longestRest bounds the rest. A user does not notice it.
	longestRest = 100 * time.Millisecond
	// While more than crowdSize keys are reconciled within crowdTime to twice that, each rests for longestInCrowd or its
	// Spec's BatchPeriod, and for less of it while they are fewer than largeCrowd: much changes then, and a status that
	// is written at once is soon out of date. The time is not shorter than the rests, so that those do not hide a crowd.
	// The rest is shorter than Regret: what a controller takes back after it is still a sign of contention.
	crowdTime      = 5 * time.Second
	crowdSize      = 50
	largeCrowd     = 100
	longestInCrowd = contention.Regret / 2
	// sweepSize is for how many keys the rests are kept before those that are over are removed.
	sweepSize = 1024
	// sweepTime is after what time a key whose reconcile is due is no longer expected.
	sweepTime = time.Hour
)

// paced returns a reconcile that lets a key rest after it, in proportion to what it took. The changes that
// arrive meanwhile are one reconcile, and one write of a status. Without it, a set of a thousand pods that
// become ready is counted a thousand times. In a crowd a key rests before it if batch is not 0, for at most that long.
func paced(next reconcile.Func[Key], batch time.Duration) reconcile.Func[Key] {
	rests := newRests(batch)
	return func(ctx context.Context, key Key) (reconcile.Result, error) {
		began := time.Now()
		if left := rests.left(key, began); left > 0 {
			return reconcile.Result{RequeueAfter: left}, nil
		}
		result, err := next(ctx, key)
		now := time.Now()
		if err != nil {
			rests.repeat(key, now)
		} else {
			rests.begin(key, now, now.Sub(began))
		}
		return result, err
	}
}

// rests are the keys that rest.
type rests struct {
	before  bool          // They rest before a reconcile in a crowd, and not after it.
	longest time.Duration // in a crowd

	mu    sync.Mutex
	of    map[Key]rest
	sweep int // how many there are when those that are over are removed

	// The keys that came since a time, and in the crowdTime before; of either as many as make a difference.
	since             time.Time
	recent, yetBefore map[Key]struct{}
	crowd             int // how many there are in both together
}

// rest is what a key has of it.
type rest struct {
	until time.Time
	// due means that the key is reconciled then.
	due bool
}

func newRests(batch time.Duration) *rests {
	return &rests{
		before: batch > 0, longest: cmp.Or(batch, longestInCrowd), of: map[Key]rest{}, sweep: sweepSize,
		recent: map[Key]struct{}{}, yetBefore: map[Key]struct{}{},
	}
}

// left returns for how long a key rests before its reconcile.
func (r *rests) left(key Key, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest, rests := r.of[key]
	if left := rest.until.Sub(now); rests && left > 0 {
		return left
	}
	delete(r.of, key)
	if !r.before || rest.due {
		return 0
	}
	left := r.inCrowd(key, now)
	if left > 0 {
		r.set(key, now, left, true)
	}
	return left
}

// begin lets a key rest after a reconcile that took so long.
func (r *rests) begin(key Key, now time.Time, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	length := min(restFactor*took, longestRest)
	if !r.before {
		length = max(length, r.inCrowd(key, now))
	}
	if length > 0 {
		r.set(key, now, length, false)
	}
}

// repeat lets a key be reconciled again after the queue's back-off, without a rest.
func (r *rests) repeat(key Key, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.before {
		r.set(key, now, 0, true)
	}
}

// set lets a key rest, and removes the rests that are over if there are many. The lock is held.
func (r *rests) set(key Key, now time.Time, length time.Duration, due bool) {
	r.of[key] = rest{until: now.Add(length), due: due}
	if len(r.of) <= r.sweep {
		return
	}
	for key, rest := range r.of {
		// One that is due stays until its reconcile, unless its object is long gone.
		if over := now.Sub(rest.until); over > sweepTime || over >= 0 && !rest.due {
			delete(r.of, key)
		}
	}
	r.sweep = max(sweepSize, 2*len(r.of))
}

// inCrowd returns for how long a key rests because of all that change; 0 if they are few. The lock is held.
func (r *rests) inCrowd(key Key, now time.Time) time.Duration {
	crowd := r.count(key, now)
	if crowd <= crowdSize {
		return 0
	}
	return r.longest * time.Duration(min(crowd, largeCrowd)) / largeCrowd
}

// count notes that a key came, and returns how many did within crowdTime to twice that.
func (r *rests) count(key Key, now time.Time) int {
	if age := now.Sub(r.since); age >= crowdTime {
		r.recent, r.yetBefore = r.yetBefore, r.recent
		clear(r.recent)
		if age >= 2*crowdTime {
			clear(r.yetBefore)
		}
		r.since, r.crowd = now, len(r.yetBefore)
	}
	if _, known := r.recent[key]; known || len(r.recent) >= largeCrowd {
		return r.crowd
	}
	r.recent[key] = struct{}{}
	if _, known := r.yetBefore[key]; !known {
		r.crowd++
	}
	return r.crowd
}
