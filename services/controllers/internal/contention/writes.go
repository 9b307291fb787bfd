package contention

import (
	"fmt"
	"reflect"
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
}

// wait returns how long a reconcile must wait.
func (w *writes) wait(now time.Time) time.Duration {
	if w.limiter != nil && now.Sub(w.lastSign) > window {
		w.limiter, w.round, w.objects, w.tally, w.calm = nil, 0, nil, tally{}, now
	}
	wait := max(w.until.Sub(now), 0)
	if w.limiter != nil {
		wait = max(wait, w.missing(now, reserve+1))
	}
	return wait
}

// missing returns after what time the limiter has so many tokens.
func (w *writes) missing(now time.Time, tokens float64) time.Duration {
	missing := tokens - w.limiter.TokensAt(now)
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

// before is called before a write. It fails if too much was written. Writes of a status may take the last
// token, so that they do not starve: other controllers act on them.
func (w *writes) before(call client.Call, which object) error {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limiter != nil {
		needed := 1.0
		if call.Subresource != "status" {
			needed += reserve
		}
		if after := w.missing(now, needed); after > 0 || !w.limiter.AllowN(now, 1) {
			return &SlowedError{After: max(after, time.Millisecond)}
		}
	}
	if call.Verb == "delete" {
		// Of what a controller deletes itself nothing is lost.
		delete(w.created, which)
	}
	return nil
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
// changes.
func (w *writes) repeated(call client.Call, of object, revision string, now time.Time) {
	w.mu.Lock()
	h, undone := w.note(call, of, revision, now)
	w.mu.Unlock()
	if h == nil {
		return
	}
	// Not under the mutex, for which all keys wait.
	content := repeat{hash: contentOf(w.seed, call)}
	w.mu.Lock()
	needed := signs
	if w.limiter != nil {
		needed = 1 // It goes on.
	}
	if h.parts == nil {
		h.parts = map[part]repeat{}
	}
	in := part{call.Verb, call.Subresource}
	if last := h.parts[in]; undone && last.hash == content.hash {
		content.times = last.times + 1
	}
	h.parts[in] = content
	begins := content.times >= needed && w.sign(now)
	w.mu.Unlock()
	if begins {
		w.began(fmt.Sprintf("%s %s/%s changes back after the same write, %d times within %v",
			singular(of.of), of.namespace, of.name, content.times, window))
	}
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
	if h.count <= signs && w.limiter == nil {
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
