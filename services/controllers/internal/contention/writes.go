package contention

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
)

// writes is what was written for one key. The ledger's mutex guards it.
type writes struct {
	*ledger
	began   func(what string)
	touched time.Time

	// objects are those that were written since a time.
	objects map[object]*history
	since   time.Time
	// round is the highest round of a creation that was lost, the last of them at the time lost.
	round int
	lost  time.Time
	tally tally
	// calm is when the last contention ended.
	calm time.Time
	// conflicts is how many reconciles in a row ended with a conflict; the next must not begin before a time.
	conflicts int
	until     time.Time

	// limiter is set during contention, whose last sign was at a time.
	limiter  *rate.Limiter
	lastSign time.Time
	// statuses limits the statuses alone. It is set while they alternate, and they last did so at a time.
	statuses    *rate.Limiter
	alternating time.Time
}

// tally counts creations, and those of them that were lost. Older ones count less.
type tally struct {
	made, gone int
	faded      time.Time
}

// fade halves the counts for each window that has passed.
func (t *tally) fade(now time.Time) {
	for ; now.Sub(t.faded) > window; t.faded = t.faded.Add(window) {
		if t.made+t.gone == 0 {
			t.faded = now
			return
		}
		t.made, t.gone = t.made/2, t.gone/2
	}
}

// history is what was written to one object.
type history struct {
	count int
	// revision is the object's after the last write.
	revision string
	// parts are what was last written to each part. Only an object that is often written has any.
	parts map[part]repeat
}

// part is what a sort of call writes of an object: all of it, or a subresource.
type part struct{ verb, subresource string }

// repeat is the hash of a content, and how often it was written in a row.
type repeat struct {
	hash  uint64
	times int
	// earlier are the contents before it, and returns is how often one of them came back soon.
	earlier [remembered]replaced
	returns int
}

// replaced is the hash of a content, and when another was written in its place.
type replaced struct {
	hash uint64
	when time.Time
}

// next returns what is known once a content was written. undone means that the object had changed since. A content that
// was replaced within soon comes back.
func (r repeat) next(hash uint64, undone bool, now time.Time, soon time.Duration) repeat {
	next := repeat{hash: hash, earlier: r.earlier, returns: r.returns}
	if r.hash == hash {
		if undone {
			next.times = r.times + 1
		}
		return next
	}
	if slices.ContainsFunc(r.earlier[:], func(e replaced) bool { return e.hash == hash && now.Sub(e.when) < soon }) {
		next.returns++
	}
	copy(next.earlier[1:], r.earlier[:])
	next.earlier[0] = replaced{r.hash, now}
	return next
}

// wait returns how long a reconcile must wait.
func (w *writes) wait(now time.Time) time.Duration {
	if w.limiter != nil && now.Sub(w.lastSign) > window {
		w.limiter, w.round, w.objects, w.tally, w.calm = nil, 0, nil, tally{}, now
	}
	wait := max(w.until.Sub(now), 0)
	if w.limiter != nil {
		wait = max(wait, missing(w.limiter, now, reserve+1))
	}
	return wait
}

// missing returns after what time a limiter has so many tokens.
func missing(limiter *rate.Limiter, now time.Time, tokens float64) time.Duration {
	missing := tokens - limiter.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return max(time.Duration(missing*float64(time.Minute/perMinute)), time.Millisecond)
}

// sign notes a sign of contention, and reports whether contention begins with it.
func (w *writes) sign(now time.Time) (begins bool) {
	w.lastSign = now
	if w.limiter != nil {
		return false
	}
	w.limiter = newLimiter(now)
	return true
}

// rounds returns the highest round that was lost within the window.
func (w *writes) rounds(now time.Time) int {
	if now.Sub(w.lost) > window {
		return 0
	}
	return w.round
}

// conflicted notes that a reconcile has ended with a conflict.
func (w *writes) conflicted(now time.Time) {
	w.mu.Lock()
	w.conflicts++
	if again := w.conflicts - 2; again >= 0 {
		w.until = now.Add(min(conflictDelay<<min(again, signs), maxConflictDelay))
	}
	begins := w.conflicts >= signs && w.sign(now)
	w.mu.Unlock()
	if begins {
		w.began(fmt.Sprintf("its last %d writes conflict with those of another client", signs))
	}
}

// before is called before a write. It fails if too much was written.
func (w *writes) before(call client.Call, which object) error {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if after := w.take(call.Subresource == "status", now); after > 0 {
		return &SlowedError{After: after}
	}
	if call.Verb == "delete" && now.Sub(w.created[which].when) >= Regret {
		// What a controller deletes itself is lost only if it was created just before: somebody changes
		// the wanted state as soon as it is reached.
		delete(w.created, which)
	}
	return nil
}

// take takes a token for a write, or returns after what time there is one. Writes of a status may take the last
// token, so that they do not starve: other controllers act on them.
func (w *writes) take(status bool, now time.Time) (after time.Duration) {
	if w.statuses != nil && now.Sub(w.alternating) > window {
		w.statuses = nil
	}
	limiter, needed := w.limiter, 1.0
	switch {
	case limiter == nil && status:
		limiter = w.statuses
	case limiter != nil && !status:
		needed += reserve
	}
	if limiter == nil {
		return 0
	}
	after = missing(limiter, now, needed)
	if after == 0 && !limiter.AllowN(now, 1) {
		after = time.Millisecond
	}
	return after
}

// after is called after a write that succeeded.
func (w *writes) after(call client.Call, which object, answer runtime.Object) {
	now := time.Now()
	got, err := meta.Accessor(answer)
	if err != nil {
		return // The answer is a Status, or there is none.
	}
	switch {
	case call.Subresource == "" && call.Verb == "create":
		which.namespace, which.name = got.GetNamespace(), got.GetName()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.tally.fade(now)
		w.tally.made++
		w.create(which, creation{by: w, when: now, round: w.rounds(now)})
	case (call.Verb == "update" || call.Verb == "patch") && !w.shared:
		w.repeated(call, which, got.GetResourceVersion(), now)
	}
}

// repeated notes a write to an object that exists. It is a sign if the same content was written before, in a
// row, and the object had changed since. Contents that alternate are none: then it is the wanted state that
// changes. A status that alternates within a second is written less often, and nothing else is.
func (w *writes) repeated(call client.Call, of object, revision string, now time.Time) {
	w.mu.Lock()
	h, undone := w.note(call, of, revision, now)
	w.mu.Unlock()
	if h == nil {
		return
	}
	// Not under the mutex, for which all keys wait.
	hash := contentOf(w.seed, call)
	w.mu.Lock()
	needed := signs
	if w.limiter != nil {
		needed = 1 // It goes on.
	}
	if h.parts == nil {
		h.parts = map[part]repeat{}
	}
	in, soon := part{call.Verb, call.Subresource}, Regret
	if w.statuses != nil {
		soon = window // It goes on, as often as it may.
	}
	before := h.parts[in]
	content := before.next(hash, undone, now, soon)
	h.parts[in] = content
	begins := content.times >= needed && w.sign(now)
	alternates := call.Subresource == "status" && content.returns > before.returns && w.alternate(content.returns, now)
	w.mu.Unlock()
	if begins {
		w.began(fmt.Sprintf("%s changes back after the same write, %d times within %v", of, content.times, window))
	}
	if alternates {
		w.began(fmt.Sprintf("the status of %s alternates, %d times within %v", of, content.returns, window))
	}
}

// alternate notes that a status has come back so many times, and reports whether statuses are slowed down from
// now on.
func (w *writes) alternate(times int, now time.Time) (begins bool) {
	if w.statuses == nil && times < signs {
		return false
	}
	w.alternating = now
	if w.statuses != nil {
		return false
	}
	w.statuses = newLimiter(now)
	return true
}

// note notes a write, and returns the object's history if its content matters: it is often written. undone
// reports whether the object had changed since the write before.
func (w *writes) note(call client.Call, of object, revision string, now time.Time) (often *history, undone bool) {
	if now.Sub(w.since) > window || w.objects == nil {
		w.objects, w.since = map[object]*history{}, now
	}
	h := w.objects[of]
	if h == nil {
		h = &history{}
		w.objects[of] = h
	}
	undone = h.revision != "" && revision != h.revision
	if old, err := meta.Accessor(call.Body); err == nil && old.GetResourceVersion() != "" {
		undone = undone && old.GetResourceVersion() != h.revision
	}
	h.revision = revision
	h.count++
	if h.count <= signs && w.limiter == nil && w.statuses == nil {
		return nil, undone
	}
	return h, undone
}

func singular(of reflect.Type) string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of.Name()
}

func plural(of reflect.Type) string { return singular(of) + "s" }
