package contention

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

// writer writes config maps for keys.
type writer struct {
	t     *testing.T
	keys  *Keys[string]
	maps  client.Resource[*corev1.ConfigMap]
	other client.Resource[*corev1.ConfigMap]
	began []string

	counting client.Interface
}

func newWriter(t *testing.T) *writer {
	t.Helper()
	api := fake.New(scheme.New())
	w := &writer{t: t, counting: Counting(api), maps: client.Of[*corev1.ConfigMap](Counting(api)), other: client.Of[*corev1.ConfigMap](api)}
	w.keys = New(false, func(key, what string) { w.began = append(w.began, key+": "+what) })
	return w
}

// begin returns the context for a key that need not wait.
func (w *writer) begin(key string) context.Context {
	w.t.Helper()
	ctx, wait := w.keys.Begin(w.t.Context(), key)
	if wait > 0 {
		w.t.Fatalf("%s waits for %v", key, wait)
	}
	return ctx
}

func (w *writer) create(ctx context.Context, name string) {
	w.t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	if _, err := w.maps.Create(ctx, m, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// fight lets the key a write while another client undoes it, until contention begins.
func (w *writer) fight() {
	w.t.Helper()
	w.create(w.t.Context(), "m")
	for range 10 * signs {
		if len(w.began) > 0 {
			return
		}
		ctx := w.begin("a")
		if err := w.patch(ctx, w.maps, "ours"); err != nil {
			w.t.Fatal(err)
		}
		if err := w.patch(w.t.Context(), w.other, "theirs"); err != nil {
			w.t.Fatal(err)
		}
	}
	w.t.Fatal("contention does not begin")
}

func (w *writer) patch(ctx context.Context, with client.Resource[*corev1.ConfigMap], value string) error {
	_, err := with.Patch(ctx, "default", "m", types.MergePatchType, []byte(`{"data":{"a":"`+value+`"}}`), metav1.PatchOptions{}, "")
	return err
}

// remove deletes an object for a key.
func (w *writer) remove(ctx context.Context, name string) {
	if len(w.began) > 0 {
		return
	}
	if err := w.maps.Delete(ctx, "default", name, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.lose(name)
}

func (w *writer) lose(name string) {
	w.keys.Lost(reflect.TypeFor[*corev1.ConfigMap](), "default", name)
}

// TestLimit checks how much is written under contention, by reconciles that wait when they are told to, and
// by one that writes as often as it can.
func TestLimit(t *testing.T) {
	for _, obedient := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWriter(t)
			w.fight()
			var written []time.Time
			for start := time.Now(); time.Since(start) < 10*time.Minute; {
				ctx, wait := w.keys.Begin(t.Context(), "a")
				if obedient && wait > 0 {
					time.Sleep(wait)
					continue
				}
				err := w.patch(ctx, w.maps, "ours")
				var slowed *SlowedError
				switch {
				case err == nil:
					written = append(written, time.Now())
					if err := w.patch(t.Context(), w.other, "theirs"); err != nil {
						t.Fatal(err)
					}
				case !errors.As(err, &slowed):
					t.Fatal(err)
				case obedient || slowed.After <= 0 || slowed.After > 6*time.Second:
					t.Fatalf("obedient %v: %v after %v", obedient, err, slowed.After)
				default:
					time.Sleep(50 * time.Millisecond)
				}
			}
			for i := range written {
				if i >= 30 && written[i].Sub(written[i-30]) < time.Minute {
					t.Fatalf("obedient %v: more than 30 writes in the minute before %v", obedient, written[i])
				}
			}
			if len(written) < 150 || len(w.began) != 1 {
				t.Errorf("obedient %v: %d writes in 10 minutes, contention %q", obedient, len(written), w.began)
			}
			w.begin("b") // Another key.
			time.Sleep(window + time.Second)
			w.begin("a")
		})
	}
}

// TestLosses checks which losses count: those of what replaces what was lost, soon.
func TestLosses(t *testing.T) {
	for name, c := range map[string]struct {
		// lose is called in each of 20 rounds, after a creation.
		lose func(w *writer, ctx context.Context, name string)
		want bool
	}{
		"each replacement": {func(w *writer, _ context.Context, name string) { w.lose(name) }, true},
		"after a minute": {func(w *writer, _ context.Context, name string) {
			<-time.After(window + time.Second)
			w.lose(name)
		}, false},
		"deleted by the controller": {func(w *writer, ctx context.Context, name string) {
			<-time.After(Regret)
			w.remove(ctx, name)
		}, false},
		"deleted by the controller at once": {(*writer).remove, true},
		"deleted by the controller after a rest": {func(w *writer, ctx context.Context, name string) {
			<-time.After(Regret / 2)
			w.remove(ctx, name)
		}, true},
		"of another kind": {func(w *writer, _ context.Context, name string) {
			w.keys.Lost(reflect.TypeFor[*corev1.Secret](), "default", name)
		}, false},
		"of nobody": {func(w *writer, _ context.Context, name string) { w.lose("not-" + name) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWriter(t)
			for i := range 20 {
				ctx, _ := w.keys.Begin(t.Context(), "a")
				which := fmt.Sprint("m", i)
				if len(w.began) == 0 {
					w.create(ctx, which)
				}
				c.lose(w, ctx, which)
			}
			if got := len(w.began) == 1; got != c.want {
				t.Errorf("%s: contention %q, want %v", name, w.began, c.want)
			}
		})
	}
}

// TestLossesOfAFew checks that a key whose creations mostly stay is not slowed down, and that one is which loses
// most of what it creates, even if it once created much that stayed.
func TestLossesOfAFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		named := 0
		round := func(creations, losses int) {
			ctx, _ := w.keys.Begin(t.Context(), "a")
			for i := range creations {
				if len(w.began) > 0 {
					return
				}
				named++
				w.create(ctx, fmt.Sprint("m", named))
				if i < losses {
					w.lose(fmt.Sprint("m", named))
				}
			}
			time.Sleep(3 * time.Second)
		}
		for range 100 {
			round(10, 1)
		}
		if len(w.began) > 0 {
			t.Fatalf("contention %q, though nine of ten stay", w.began)
		}
		for range 100 {
			round(2, 2)
		}
		if len(w.began) != 1 {
			t.Errorf("contention %q, want one, since nothing stays", w.began)
		}
	})
}

// TestStatusesDoNotStarve checks that a reconcile which was allowed to begin can write a status even after it
// has written something else, and that a status may be written when nothing else may.
func TestStatusesDoNotStarve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		w.fight()
		for range 100 {
			ctx, wait := w.keys.Begin(t.Context(), "a")
			if wait > 0 {
				time.Sleep(wait)
				continue
			}
			if err := w.patch(ctx, w.maps, "ours"); err != nil {
				t.Fatal(err)
			}
			if err := w.patch(t.Context(), w.other, "theirs"); err != nil {
				t.Fatal(err)
			}
			if err := w.patch(ctx, w.maps, "ours"); !IsSlowed(err) {
				t.Fatalf("another write: %v, want to be slowed", err)
			}
			_, err := w.maps.Patch(ctx, "default", "m", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
			if IsSlowed(err) {
				t.Fatalf("the status: %v", err)
			}
		}
	})
}

// TestAlternatingStatus checks that a status which goes back and forth is written at most 30 times a minute, and that
// neither other writes nor a status that goes on are slowed down.
func TestAlternatingStatus(t *testing.T) {
	for name, c := range map[string]struct {
		contents int
		pause    time.Duration
		want     bool
	}{
		"two contents":              {2, 200 * time.Millisecond, true},
		"five contents":             {remembered + 1, 200 * time.Millisecond, true},
		"always another":            {1000, 200 * time.Millisecond, false},
		"as who scales up and down": {2, Regret, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWriter(t)
			pods := client.Of[*corev1.Pod](w.counting)
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
			if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			report := func(ctx context.Context, reason string) error {
				status := []byte(`{"status":{"reason":"` + reason + `"}}`)
				_, err := pods.Patch(ctx, "default", "p", types.MergePatchType, status, metav1.PatchOptions{}, "status")
				return err
			}
			var written []time.Time
			tries := 0
			for start := time.Now(); time.Since(start) < 5*time.Minute; time.Sleep(c.pause) {
				ctx := w.begin("a")
				err := report(ctx, fmt.Sprint(tries%c.contents))
				switch {
				case err == nil:
					written, tries = append(written, time.Now()), tries+1
				case !IsSlowed(err):
					t.Fatal(err)
				}
				w.create(ctx, fmt.Sprint("other-", time.Now().UnixNano()))
			}
			if got := len(w.began) == 1; got != c.want {
				t.Fatalf("%s: contention %q, want %v", name, w.began, c.want)
			}
			if !c.want {
				return
			}
			minute := slices.DeleteFunc(written, func(at time.Time) bool { return time.Since(at) > time.Minute })
			if len(minute) < 15 || len(minute) > 30 {
				t.Errorf("%s: %d writes in the last minute, want 20", name, len(minute))
			}
			time.Sleep(window + time.Second)
			for i := range 15 { // It is over.
				if err := report(w.begin("a"), fmt.Sprint("again-", i)); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		})
	}
}

// TestSharedWrites checks that writes which others undo by right are no sign.
func TestSharedWrites(t *testing.T) {
	w := newWriter(t)
	w.keys = New(true, func(key, what string) { w.began = append(w.began, key+": "+what) })
	w.create(t.Context(), "m")
	for range 10 * signs {
		if err := w.patch(w.begin("a"), w.maps, "ours"); err != nil {
			t.Fatal(err)
		}
		if err := w.patch(t.Context(), w.other, "theirs"); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.began) > 0 {
		t.Errorf("contention %q", w.began)
	}
}

// TestConflicts checks that each conflict in a row makes a key wait longer, up to a bound, and that a
// success ends it.
func TestConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		for i, want := range []time.Duration{0, 100, 200, 400, 800, 1600, 2000, 2000, 2000} {
			ctx := w.begin("a")
			Conflicted(ctx)
			_, wait := w.keys.Begin(t.Context(), "a")
			if wait != want*time.Millisecond {
				t.Errorf("conflict %d: waits for %v, want %v", i, wait, want*time.Millisecond)
			}
			time.Sleep(wait)
		}
		Succeeded(w.begin("a"))
		Conflicted(w.begin("a"))
		w.begin("a")
		if len(w.began) > 0 {
			t.Errorf("contention %q", w.began)
		}
	})
}

// TestContent checks which writes have the same content.
func TestContent(t *testing.T) {
	seed := maphash.MakeSeed()
	call := func(body runtime.Object) uint64 {
		return contentOf(seed, client.Call{Verb: "update", Subresource: "status", Body: body})
	}
	whole := func(labels map[string]string, revision string) uint64 {
		return contentOf(seed, client.Call{Verb: "update", Body: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, ResourceVersion: revision}}})
	}
	patch := func(text string) uint64 { return contentOf(seed, client.Call{Verb: "patch", Patch: []byte(text)}) }
	pod := func(change func(*corev1.Pod)) uint64 {
		p := &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "Ready"}}}}
		change(p)
		return call(p)
	}
	plain := pod(func(*corev1.Pod) {})
	for name, c := range map[string]struct {
		a, b uint64
		same bool
	}{
		"the same":                       {plain, pod(func(*corev1.Pod) {}), true},
		"another revision":               {plain, pod(func(p *corev1.Pod) { p.ResourceVersion = "7" }), true},
		"another time":                   {plain, pod(func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Now() }), true},
		"another message":                {plain, pod(func(p *corev1.Pod) { p.Status.Conditions[0].Message = "b" }), true},
		"another value":                  {plain, pod(func(p *corev1.Pod) { p.Status.Phase = "Running" }), false},
		"another condition":              {plain, pod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = "True" }), false},
		"a patch":                        {patch(`{"a":1,"b":[{"lastTransitionTime":1}]}`), patch(`{"b":[{"lastTransitionTime":2}],"a":1}`), true},
		"another patch":                  {patch(`{"a":1}`), patch(`{"a":2}`), false},
		"what is no JSON":                {patch(`a: 1`), patch(`a: 2`), false},
		"another label":                  {whole(map[string]string{"a": "b"}, ""), whole(nil, ""), false},
		"a later object":                 {whole(nil, "1"), whole(nil, "2"), true},
		"another status":                 {statusOf(seed, "Running", "a"), statusOf(seed, "Failed", "a"), false},
		"another spec beside the status": {statusOf(seed, "Running", "a"), statusOf(seed, "Running", "b"), true},
	} {
		if got := c.a == c.b; got != c.same {
			t.Errorf("%s: same content: %v, want %v", name, got, c.same)
		}
	}
}

// statusOf returns the content of an update of a pod's status.
func statusOf(seed maphash.Seed, phase corev1.PodPhase, node string) uint64 {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	return contentOf(seed, client.Call{Verb: "update", Subresource: "status", Body: pod})
}

// TestMemory checks that what was noted goes after a while, however many keys and objects come and go.
func TestMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		for i := range 20 * minimumSweep {
			w.create(w.begin(fmt.Sprint("key", i)), fmt.Sprint("m", i))
			time.Sleep(window / 100)
		}
		if keys, created := len(w.keys.keys), len(w.keys.created); keys > 2*minimumSweep || created > 2*minimumSweep {
			t.Errorf("%d keys and %d creations are kept", keys, created)
		}
		known := len(w.keys.keys)
		Succeeded(w.begin("idle"))
		if got := len(w.keys.keys); got > known {
			t.Errorf("a reconcile that writes nothing is kept: %d keys, then %d", known, got)
		}
	})
}
