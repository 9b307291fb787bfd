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
	// conflicts is how many reconciles in a row ended with a conflict; the next must not begin before a time.
	conflicts int
	until     time.Time

	// limiter is set during contention, whose last sign was at a time.
	limiter  *rate.Limiter
	lastSign time.Time
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
		w.limiter, w.round, w.objects = nil, 0, nil
	}
	wait := max(w.until.Sub(now), 0)
	if w.limiter != nil {
		wait = max(wait, w.missing(now))
	}
	return wait
}

// missing returns after what time the limiter has a token.
func (w *writes) missing(now time.Time) time.Duration {
	missing := 1 - w.limiter.TokensAt(now)
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
	if w.limiter != nil && !w.limiter.AllowN(now, 1) {
		return &SlowedError{After: w.missing(now)}
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
	w.mu.Lock()
	switch {
	case call.Subresource == "" && call.Verb == "create":
		which.namespace, which.name = got.GetNamespace(), got.GetName()
		w.create(which, creation{by: w, when: now, round: w.rounds(now)})
	case call.Verb == "update" || call.Verb == "patch":
		needed := signs
		if w.limiter != nil {
			needed = 1 // It goes on.
		}
		if times := w.again(call, which, got.GetResourceVersion(), now); times >= needed && w.sign(now) {
			w.mu.Unlock()
			w.began(fmt.Sprintf("%s %s/%s changes back after the same write, %d times within %v",
				singular(which.of), which.namespace, which.name, times, window))
			return
		}
	}
	w.mu.Unlock()
}

// again returns how many times in a row the same content was written to an object that had changed since.
// Contents that alternate are none of these: then it is the wanted state that changes.
func (w *writes) again(call client.Call, of object, revision string, now time.Time) int {
	if now.Sub(w.since) > window || w.objects == nil {
		w.objects, w.since = map[object]*history{}, now
	}
	h := w.objects[of]
	if h == nil {
		h = &history{}
		w.objects[of] = h
	}
	undone := h.revision != "" && revision != h.revision
	if old, err := meta.Accessor(call.Body); err == nil && old.GetResourceVersion() != "" {
		undone = undone && old.GetResourceVersion() != h.revision
	}
	h.revision = revision
	h.count++
	if h.count <= signs && w.limiter == nil {
		return 0
	}
	if h.parts == nil {
		h.parts = map[part]repeat{}
	}
	in, content := part{call.Verb, call.Subresource}, repeat{hash: contentOf(w.seed, call)}
	if last := h.parts[in]; undone && last.hash == content.hash {
		content.times = last.times + 1
	}
	h.parts[in] = content
	return content.times
}

func singular(of reflect.Type) string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	return of.Name()
}

func plural(of reflect.Type) string { return singular(of) + "s" }
