package informer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// gated returns a handler that waits before each call until the gate is open.
func gated(r *recorder, gate <-chan struct{}) informer.ResourceEventHandler[*corev1.Pod] {
	return informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc:    func(obj *corev1.Pod, initial bool) { <-gate; r.OnAdd(obj, initial) },
		UpdateFunc: func(old, obj *corev1.Pod) { <-gate; r.OnUpdate(old, obj) },
		DeleteFunc: func(obj informer.DeletedObject[*corev1.Pod]) { <-gate; r.OnDelete(obj) },
	}
}

// TestBacklogCoalescesUpdates checks that a slow handler is bounded (H114, mended). Beyond the
// backlog the pending updates of one object coalesce, but never across UIDs, nor with an add or a
// delete. A metric counts them.
func TestBacklogCoalescesUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		p, slow, fast := runWith(t, informer.Config{Registerer: registry, Service: "test"}), &recorder{}, &recorder{}
		gate := make(chan struct{})
		if _, err := p.AddEventHandlerWithOptions(gated(slow, gate), informer.HandlerOptions{Backlog: 2, Name: "slow"}); err != nil {
			t.Fatal(err)
		}
		handle(t, p, fast)
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1), pod("b", "2", 1)})
		var changes []informer.Change
		for revision := int64(2); revision <= 5; revision++ {
			changes = append(changes, put(pod("b", "2", revision)))
		}
		changes = append(changes, del(pod("b", "2", 5), 6), put(pod("b", "3", 7)), put(pod("b", "3", 8)), put(pod("b", "3", 9)))
		p.sink.Apply(changes, 9)
		if n := len(fast.take()); n != 10 {
			t.Errorf("the fast handler got %d calls, want all 10", n)
		}
		status := p.Status().Handlers[0]
		if status.Coalesced != 4 || status.Name != "slow" || status.LagRevisions == 0 {
			t.Errorf("the slow handler's status is %+v", status)
		}
		if n := gathered(t, registry, "informer_coalesced_updates_total", "handler", "slow"); n != 4 {
			t.Errorf("the metric shows %v coalesced updates", n)
		}
		close(gate)
		calls := slices.DeleteFunc(slow.take(), func(call string) bool { return strings.HasPrefix(call, "initial") })
		want := []string{"update b/2@1-5", "delete default/b 2@5", "add b/3@7", "update b/3@7-9"}
		if !slices.Equal(calls, want) {
			t.Errorf("the slow handler got %q,\nwant %q", calls, want)
		}
	})
}

// TestCoalescingIsOneHandlersOwn checks that handlers share pending calls, but not what coalesces:
// another waiting handler, with a longer backlog, gets every change. Coalescing stops when the
// backlog is short again.
func TestCoalescingIsOneHandlersOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, short, long := runWith(t, informer.Config{}), &recorder{}, &recorder{}
		step, gate := make(chan struct{}), make(chan struct{})
		for handler, backlog := range map[*recorder]int{short: 4, long: -1} {
			wait := map[*recorder]chan struct{}{short: step, long: gate}[handler]
			if _, err := p.AddEventHandlerWithOptions(gated(handler, wait), informer.HandlerOptions{Backlog: backlog}); err != nil {
				t.Fatal(err)
			}
		}
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1)})
		synctest.Wait() // Both are in their first call.
		update := func(from, to int64) {
			for revision := from; revision <= to; revision++ {
				p.sink.Apply([]informer.Change{put(pod("a", "1", revision))}, revision)
				synctest.Wait()
			}
		}
		update(2, 7)
		step <- struct{}{}
		step <- struct{}{}
		synctest.Wait() // In the third call, with two waiting.
		update(8, 8)
		close(step)
		close(gate)
		synctest.Wait()
		got := short.take()
		if want := []string{"initial a/1@1", "update a/1@1-2", "update a/1@2-3", "update a/1@3-4", "update a/1@4-7", "update a/1@7-8"}; !slices.Equal(got, want) {
			t.Errorf("the handler with a short backlog got %q, want %q", got, want)
		}
		every := []string{"initial a/1@1"}
		for revision := 2; revision <= 8; revision++ {
			every = append(every, fmt.Sprintf("update a/1@%d-%d", revision-1, revision))
		}
		if got := long.take(); !slices.Equal(got, every) {
			t.Errorf("the handler without a limit got %q, want %q", got, every)
		}
	})
}

// TestNoCoalescingBelowTheBacklog checks that nothing coalesces below the backlog, and that a
// negative backlog means never.
func TestNoCoalescingBelowTheBacklog(t *testing.T) {
	for _, backlog := range []int{100, -1} {
		synctest.Test(t, func(t *testing.T) {
			p, r := runWith(t, informer.Config{Backlog: backlog}), &recorder{}
			gate := make(chan struct{})
			handle(t, p, gated(r, gate))
			p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1)})
			for revision := int64(2); revision < 90; revision++ {
				p.sink.Apply([]informer.Change{put(pod("a", "1", revision))}, revision)
			}
			close(gate)
			if n := len(r.take()); n != 89 {
				t.Errorf("backlog %d: %d calls, want 89", backlog, n)
			}
		})
	}
}

// TestCoalescedDeliveryIsConsistent checks what a slow handler gets: each object's lives in order,
// each state newer than the last and starting where that ended, and every add and delete.
func TestCoalescedDeliveryIsConsistent(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 9))
			p, slow, fast := run(t), &recorder{}, &recorder{}
			gate := make(chan struct{})
			if _, err := p.AddEventHandlerWithOptions(gated(slow, gate), informer.HandlerOptions{
				Backlog: 1 + random.IntN(8), ResyncPeriod: time.Minute,
			}); err != nil {
				t.Fatal(err)
			}
			handle(t, p, fast)
			p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "0", 1)})
			live := map[string]string{"a": "0"}
			for revision := int64(2); revision < 120; revision++ {
				name := string(rune('a' + random.IntN(3)))
				switch uid, known := live[name]; {
				case known && random.IntN(6) == 0:
					delete(live, name)
					p.sink.Apply([]informer.Change{del(pod(name, uid, revision), revision)}, revision)
				case !known:
					live[name] = fmt.Sprint(revision)
					fallthrough
				default:
					p.sink.Apply([]informer.Change{put(pod(name, live[name], revision))}, revision)
				}
				switch random.IntN(12) {
				case 0:
					gate <- struct{}{}
				case 1:
					time.Sleep(time.Minute)
				}
			}
			close(gate)
			all, got := fast.take(), slow.take()
			consistent(t, seed, got)
			for _, kind := range []string{"add", "delete"} {
				if a, b := only(all, kind), only(got, kind); !slices.Equal(a, b) {
					t.Errorf("seed %d: %ss %q, want %q", seed, kind, b, a)
				}
			}
			if len(got) >= len(all)+50 {
				t.Errorf("seed %d: %d calls of %d", seed, len(got), len(all))
			}
		})
	}
}

func only(calls []string, kind string) []string {
	var kept []string
	for _, call := range calls {
		if strings.HasPrefix(call, kind) {
			kept = append(kept, call)
		}
	}
	return kept
}

// consistent checks that each update begins with the last delivered state.
func consistent(t *testing.T, seed uint64, calls []string) {
	t.Helper()
	last := map[string]string{}
	for _, call := range calls {
		kind, rest, _ := strings.Cut(call, " ")
		switch kind {
		case "add", "initial":
			object, revision, _ := strings.Cut(rest, "@")
			last[object] = revision
		case "update":
			object, revisions, _ := strings.Cut(rest, "@")
			before, after, _ := strings.Cut(revisions, "-")
			if last[object] != before {
				t.Errorf("seed %d: %q after state %s", seed, call, last[object])
			}
			last[object] = after
		}
	}
}

// gathered returns the value of a series with a label; -1 if there is none.
func gathered(t *testing.T, registry *prometheus.Registry, name, label, value string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, pair := range m.GetLabel() {
				if pair.GetName() == label && pair.GetValue() == value {
					return m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return -1
}
