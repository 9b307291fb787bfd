package contention

import (
	"context"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// window is how long a sign counts.
	window = time.Minute
	// signs is how many of a sign are contention.
	signs = 10
	// burst and perMinute bound the writes for a key under contention: together 30 in any minute.
	burst, perMinute = 10, 20
	// Regret is how soon a controller must take back what it wrote for that to be a sign: delete what it created, or
	// write the status that it replaced. Who scales up and down, as an autoscaler does, is slower. It is longer than a
	// key rests after a reconcile.
	Regret = 2 * time.Second
	// reserve is how many of them are for statuses.
	reserve = 1
	// remembered is how many contents of a status are known beside the last one.
	remembered = 4
	// conflictDelay is how long a key waits after the second conflict in a row, then twice as long after
	// each, up to maxConflictDelay.
	conflictDelay, maxConflictDelay = 100 * time.Millisecond, 2 * time.Second
	// minimumSweep is from how many records on those without use are removed.
	minimumSweep = 1024
)

// Keys are the keys of one controller, with what was written for each within the last minute. It is safe
// for concurrent use.
type Keys[K comparable] struct {
	began func(key K, what string)
	ledger

	keys  map[K]*writes
	sweep int // the number of keys above which idle ones are removed
	swept time.Time
}

// New returns no keys yet. It calls began when contention for a key begins, with a sentence that says what
// was seen. shared means that others write the same fields by right: that the same content must be written
// again is then no sign.
func New[K comparable](shared bool, began func(key K, what string)) *Keys[K] {
	return &Keys[K]{
		began: began, keys: map[K]*writes{},
		ledger: ledger{shared: shared, seed: maphash.MakeSeed(), created: map[object]creation{}},
	}
}

// Begin returns the context for a reconcile of a key, for which a Counting client counts the writes, and how
// long the reconcile must wait; 0 if it need not.
func (k *Keys[K]) Begin(ctx context.Context, key K) (context.Context, time.Duration) {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.clean(now)
	a := &attempt{ledger: &k.ledger, of: k.keys[key]}
	if a.of == nil {
		a.begin = func() *writes { return k.begin(key) }
		return context.WithValue(ctx, contextKey{}, a), 0
	}
	a.of.touched = now
	return context.WithValue(ctx, contextKey{}, a), a.of.wait(now)
}

// begin returns the writes for a key. The caller holds mu.
func (k *Keys[K]) begin(key K) *writes {
	w := k.keys[key]
	if w == nil {
		w = &writes{ledger: &k.ledger, began: func(what string) { k.began(key, what) }, touched: time.Now()}
		k.keys[key] = w
	}
	return w
}

// clean removes what nobody has used for a while: once in a window, and when there are many keys.
func (k *Keys[K]) clean(now time.Time) {
	if len(k.keys) < max(k.sweep, minimumSweep) && now.Sub(k.swept) < window {
		return
	}
	k.swept = now
	for key, w := range k.keys {
		if now.Sub(w.touched) > window {
			delete(k.keys, key)
		}
	}
	k.sweep = 2 * len(k.keys)
}

// Conflicted notes that the reconcile of ctx has ended with a conflict.
func Conflicted(ctx context.Context) {
	if a, ok := ctx.Value(contextKey{}).(*attempt); ok {
		a.writes().conflicted(time.Now())
	}
}

// Succeeded notes that the reconcile of ctx has ended without an error.
func Succeeded(ctx context.Context) {
	if a, ok := ctx.Value(contextKey{}).(*attempt); ok {
		a.ledger.mu.Lock()
		defer a.ledger.mu.Unlock()
		if a.of != nil {
			a.of.conflicts = 0
		}
	}
}

type contextKey struct{}

// attempt is one reconcile of a key. Most write nothing, and then nothing is kept of them.
type attempt struct {
	ledger *ledger
	of     *writes // nil before the key's first write
	begin  func() *writes
}

// writes returns the writes for the key.
func (a *attempt) writes() *writes {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if a.of == nil {
		a.of = a.begin()
	}
	return a.of
}

// object names an object of a Go type.
type object struct {
	of              reflect.Type
	namespace, name string
}

func (o object) String() string { return singular(o.of) + " " + o.namespace + "/" + o.name }

// creation is an object that a reconcile created.
type creation struct {
	by   *writes
	when time.Time
	// round is 0, or one more than that of the object which it replaces.
	round int
}

// ledger is what the keys of a controller share.
type ledger struct {
	shared  bool
	seed    maphash.Seed
	mu      sync.Mutex
	created map[object]creation
	limit   int // the number of creations above which old ones are removed
}

// Lost notes that an object, which a controller may have created, is gone or has failed.
func (l *ledger) Lost(of reflect.Type, namespace, name string) {
	now, which := time.Now(), object{of, namespace, name}
	l.mu.Lock()
	made, found := l.created[which]
	delete(l.created, which)
	if !found || now.Sub(made.when) > window {
		l.mu.Unlock()
		return
	}
	w := made.by
	if made.when.Before(w.calm) {
		made.round = 0 // What was lost before is over.
	}
	round := max(w.rounds(now), made.round+1)
	w.round, w.lost = round, now
	w.tally.fade(now)
	w.tally.gone++
	// Where most of what it creates stays, it has other work than to fight.
	most := 2*w.tally.gone >= w.tally.made
	begins := round >= signs && most && w.sign(now)
	l.mu.Unlock()
	if begins {
		w.began(fmt.Sprintf("%s that it creates are deleted or fail within %v, %d times in a row", plural(of), window, round))
	}
}

// create notes a creation.
func (l *ledger) create(which object, made creation) {
	if len(l.created) >= max(l.limit, minimumSweep) {
		for each, old := range l.created {
			if made.when.Sub(old.when) > window {
				delete(l.created, each)
			}
		}
		l.limit = 2 * len(l.created)
	}
	l.created[which] = made
}

// newLimiter returns a limiter without a token.
func newLimiter(now time.Time) *rate.Limiter {
	limiter := rate.NewLimiter(rate.Every(time.Minute/perMinute), burst)
	limiter.AllowN(now, burst)
	return limiter
}
