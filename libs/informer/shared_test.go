package informer_test

import (
	"context"
	"errors"
	"slices"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

// TestStatementsBecomeCalls covers checklist H110, H116 and H117.
func TestStatementsBecomeCalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(s informer.Sink)
		want []string
	}{
		{"new in a whole view", func(s informer.Sink) {
			s.Replace(fabric.Position{Revision: 10}, []informer.Object{pod("a", "1", 3), pod("b", "2", 8)})
		}, []string{"add b/2@8"}},
		{"changed in a whole view", func(s informer.Sink) {
			s.Replace(fabric.Position{Revision: 10}, []informer.Object{pod("a", "1", 9)})
		}, []string{"update a/1@3-9"}},
		{"an older state in a whole view replaces too", func(s informer.Sink) {
			s.Replace(fabric.Position{Revision: 10}, []informer.Object{pod("a", "1", 2)})
		}, []string{"update a/1@3-2"}},
		{"unchanged in a whole view", func(s informer.Sink) {
			s.Replace(fabric.Position{Revision: 10}, []informer.Object{pod("a", "1", 3)})
		}, nil},
		{"absent from a whole view", func(s informer.Sink) {
			s.Replace(fabric.Position{Revision: 10}, nil)
		}, []string{"delete default/a 1@3 unknown"}},
		{"another uid in a whole view", func(s informer.Sink) {
			s.Replace(fabric.Position{Revision: 10}, []informer.Object{pod("a", "2", 9)})
		}, []string{"delete default/a 1@3 unknown", "add a/2@9"}},
		{"deletes come before adds", func(s informer.Sink) {
			s.Replace(fabric.Position{Revision: 10}, []informer.Object{pod("b", "2", 9)})
		}, []string{"delete default/a 1@3 unknown", "add b/2@9"}},
		{"put of a new object", func(s informer.Sink) {
			s.Apply([]informer.Change{put(pod("b", "2", 9))}, 9)
		}, []string{"add b/2@9"}},
		{"put of a known object", func(s informer.Sink) {
			s.Apply([]informer.Change{put(pod("a", "1", 9))}, 9)
		}, []string{"update a/1@3-9"}},
		{"put with another uid", func(s informer.Sink) {
			s.Apply([]informer.Change{put(pod("a", "2", 9))}, 9)
		}, []string{"delete default/a 1@3 unknown", "add a/2@9"}},
		{"delete without a state", func(s informer.Sink) {
			s.Apply([]informer.Change{del(pod("a", "1", 3), 9)}, 9)
		}, []string{"delete default/a 1@3"}},
		{"delete with the last state", func(s informer.Sink) {
			change := del(pod("a", "1", 3), 9)
			change.Object = pod("a", "1", 9)
			s.Apply([]informer.Change{change}, 9)
		}, []string{"delete default/a 1@9"}},
		{"delete of an unknown object", func(s informer.Sink) {
			s.Apply([]informer.Change{del(pod("x", "7", 3), 9)}, 9)
		}, nil},
		{"an object of another type", func(s informer.Sink) {
			s.Apply([]informer.Change{{Revision: 9, Name: "n", Object: &corev1.Node{}}, put(pod("a", "1", 9))}, 9)
		}, []string{"update a/1@3-9"}},
		{"several changes", func(s informer.Sink) {
			s.Apply([]informer.Change{put(pod("a", "1", 8)), del(pod("a", "1", 8), 9), put(pod("a", "2", 10))}, 10)
		}, []string{"update a/1@3-8", "delete default/a 1@8", "add a/2@10"}},
		{"nothing", func(s informer.Sink) { s.Apply(nil, 9) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p, r := run(t), &recorder{}
				handle(t, p, r)
				if p.HasSynced() {
					t.Error("HasSynced before the first whole view")
				}
				p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3)})
				if calls := r.take(); !slices.Equal(calls, []string{"initial a/1@3"}) {
					t.Fatalf("the first whole view made the calls %q", calls)
				}
				if !p.HasSynced() {
					t.Error("no HasSynced after the first whole view")
				}
				tt.do(p.sink)
				if diff := cmp.Diff(tt.want, r.take()); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestRevision checks that revision and content move together (checklist E65, E66).
func TestRevision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t)
		p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3)})
		p.sink.Apply(nil, 7)
		if r := p.Revision(); r != 7 {
			t.Errorf("the revision is %d, want 7", r)
		}
		waited := make(chan error, 1)
		go func() { waited <- p.WaitForRevision(t.Context(), 9) }()
		synctest.Wait()
		if !slices.Equal(p.follow.required, []int64{9}) {
			t.Errorf("the follower was asked for %v", p.follow.required)
		}
		p.sink.Apply(nil, 8)
		synctest.Wait()
		select {
		case err := <-waited:
			t.Fatalf("the wait ended at revision 8: %v", err)
		default:
		}
		p.sink.Apply([]informer.Change{put(pod("b", "2", 9))}, 9)
		if err := <-waited; err != nil {
			t.Error(err)
		}
		if _, exists := p.Indexer().GetByKey("default/b"); !exists {
			t.Error("the wait ended before the content was there")
		}

		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.WaitForRevision(short, 100); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait that ran out returned %v", err)
		}
		go func() { waited <- p.WaitForRevision(t.Context(), 100) }()
		synctest.Wait()
		p.end()
		if err := <-waited; !errors.Is(err, informer.ErrStopped) {
			t.Errorf("a wait at an informer that ended returned %v", err)
		}
	})
}

// TestLateHandler covers checklist H115, H116 and H118.
func TestLateHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t)
		p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3), pod("b", "2", 4)})
		p.sink.Apply([]informer.Change{put(pod("a", "1", 6))}, 6)

		r := &recorder{}
		registration := handle(t, p, r)
		p.sink.Apply([]informer.Change{put(pod("c", "3", 7))}, 7)
		calls := r.take()
		sort.Strings(calls[:2])
		if want := []string{"initial a/1@6", "initial b/2@4", "add c/3@7"}; !slices.Equal(calls, want) {
			t.Errorf("calls %q, want %q", calls, want)
		}
		if !registration.HasSynced() {
			t.Error("the registration has not synced")
		}
	})
}

// TestRegistrationSyncsAfterTheHandler checks that synced means that the handler has returned
// (checklist H118).
func TestRegistrationSyncsAfterTheHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t)
		proceed := make(chan struct{})
		registration := handle(t, p, informer.ResourceEventHandlerFuncs[*corev1.Pod]{
			AddFunc: func(*corev1.Pod, bool) { <-proceed },
		})
		other := handle(t, p, &recorder{})
		p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3)})
		synctest.Wait()
		if registration.HasSynced() || !other.HasSynced() {
			t.Errorf("synced: blocked handler %v, other %v", registration.HasSynced(), other.HasSynced())
		}
		close(proceed)
		synctest.Wait()
		if !registration.HasSynced() {
			t.Error("not synced after the handler has returned")
		}
	})
}

func TestEmptyInitialListSyncsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t)
		before := handle(t, p, &recorder{})
		p.sink.Replace(fabric.Position{Revision: 5}, nil)
		after := handle(t, p, &recorder{})
		if !before.HasSynced() || !after.HasSynced() {
			t.Errorf("synced: early %v, late %v", before.HasSynced(), after.HasSynced())
		}
	})
}

// TestBlockedHandler checks that a blocked handler delays no other (checklist H113, H114).
func TestBlockedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := run(t), &recorder{}
		proceed := make(chan struct{})
		slow := &recorder{}
		handle(t, p, informer.ResourceEventHandlerFuncs[*corev1.Pod]{
			AddFunc: func(obj *corev1.Pod, initial bool) { <-proceed; slow.OnAdd(obj, initial) },
		})
		handle(t, p, r)
		p.sink.Replace(fabric.Position{Revision: 5}, nil)
		for i := range int64(10_000) {
			p.sink.Apply([]informer.Change{put(pod("p", "1", 6+2*i)), del(pod("p", "1", 6+2*i), 7+2*i)}, 7+2*i)
		}
		if n := len(r.take()); n != 20_000 {
			t.Errorf("the other handler got %d calls, want 20000", n)
		}
		close(proceed)
		if n := len(slow.take()); n != 10_000 {
			t.Errorf("the slow handler got %d adds, want 10000", n)
		}
	})
}

// TestPanickingHandler checks that a panic costs only the one call, even in the initial list
// (checklist H120, mended; H121, changed).
func TestPanickingHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := run(t), &recorder{}
		registration := handle(t, p, informer.ResourceEventHandlerFuncs[*corev1.Pod]{
			AddFunc: func(obj *corev1.Pod, initial bool) {
				if obj.Name == "bad" {
					panic("bad pod")
				}
				r.OnAdd(obj, initial)
			},
		})
		p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("bad", "1", 3)})
		p.sink.Apply([]informer.Change{put(pod("good", "2", 6))}, 6)
		if calls := r.take(); !slices.Equal(calls, []string{"add good/2@6"}) {
			t.Errorf("calls %q", calls)
		}
		if !registration.HasSynced() {
			t.Error("a panic held the registration back")
		}
	})
}

// TestRemoveEventHandler covers checklist H122, H124 and H125.
func TestRemoveEventHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := run(t), &recorder{}
		first, second := handle(t, p, r), handle(t, p, r)
		p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3)})
		if calls := r.take(); len(calls) != 2 {
			t.Fatalf("two registrations got %q", calls)
		}
		for range 2 {
			if err := p.RemoveEventHandler(first); err != nil {
				t.Fatal(err)
			}
		}
		p.sink.Apply([]informer.Change{put(pod("a", "1", 6))}, 6)
		if calls := r.take(); len(calls) != 1 {
			t.Errorf("after one was removed, the calls are %q", calls)
		}
		if err := prepare().RemoveEventHandler(second); err != nil {
			t.Errorf("removing another informer's registration: %v", err)
		}
		if err := p.RemoveEventHandler(nil); err == nil {
			t.Error("no error for a nil registration")
		}
		p.end()
		if _, err := p.AddEventHandler(r); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("adding after the end: %v", err)
		}
		if err := p.AddIndexers(informer.Indexers[*corev1.Pod]{}); !errors.Is(err, informer.ErrStopped) {
			t.Errorf("adding indexes after the end: %v", err)
		}
		if err := p.Run(t.Context()); err == nil {
			t.Error("an informer ran twice")
		}
	})
}

// TestResync covers checklist H128.
func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, plain, resynced := run(t), &recorder{}, &recorder{}
		handle(t, p, plain)
		if _, err := p.AddEventHandlerWithOptions(resynced, informer.HandlerOptions{ResyncPeriod: time.Minute}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second) // nothing to resync before the first whole view
		p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3)})
		resynced.take()
		plain.take()
		for range 3 {
			time.Sleep(time.Minute)
			if calls := resynced.take(); !slices.Equal(calls, []string{"update a/1@3-3"}) {
				t.Errorf("a resync made the calls %q", calls)
			}
		}
		if calls := plain.take(); calls != nil {
			t.Errorf("a handler without a period got %q", calls)
		}
	})
}

// TestResyncDoesNotPileUp checks that resyncs do not pile up behind a handler that is slower than
// its period.
func TestResyncDoesNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := run(t), &recorder{}
		proceed := make(chan struct{})
		if _, err := p.AddEventHandlerWithOptions(informer.ResourceEventHandlerFuncs[*corev1.Pod]{
			UpdateFunc: func(old, obj *corev1.Pod) { <-proceed; r.OnUpdate(old, obj) },
		}, informer.HandlerOptions{ResyncPeriod: time.Second}); err != nil {
			t.Fatal(err)
		}
		p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3)})
		time.Sleep(time.Hour + time.Second/2) // between two periods
		close(proceed)
		if n := len(r.take()); n != 1 {
			t.Errorf("%d resyncs waited", n)
		}
	})
}

// TestStoreIsAheadOfHandlers checks that the store is never behind what a handler was notified of
// (checklist H112).
func TestStoreIsAheadOfHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t)
		handle(t, p, informer.ResourceEventHandlerFuncs[*corev1.Pod]{
			AddFunc: func(obj *corev1.Pod, _ bool) {
				if _, exists := p.Indexer().GetByKey(informer.Key(obj)); !exists {
					t.Errorf("%s is not in the store yet", obj.Name)
				}
				// A handler may use the informer.
				if _, err := p.AddEventHandler(&recorder{}); err != nil {
					t.Error(err)
				}
			},
		})
		p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3), pod("b", "2", 3)})
		synctest.Wait()
	})
}

func TestTraceOfAppliedChanges(t *testing.T) {
	source, hops := &script{}, trace.NewRecorder(10)
	informer.NewSharedInformer[*corev1.Pod](informer.Config{
		Source: source, Table: scheme.New(), Trace: hops, Service: "test", Registerer: prometheus.NewRegistry(),
	}, informer.View{})
	sink := source.followers[0].sink
	sink.Replace(fabric.Position{Revision: 5}, []informer.Object{pod("a", "1", 3)})
	sink.Apply([]informer.Change{put(pod("a", "1", 6)), del(pod("a", "1", 6), 7)}, 7)
	var got []string
	for _, hop := range hops.Hops(func(trace.Hop) bool { return true }) {
		got = append(got, strings.Join([]string{hop.Service, hop.Step, hop.Resource, hop.Namespace, hop.Name, hop.UID, hop.Detail}, " "))
		if hop.Revision == 0 {
			t.Error("a hop without a revision")
		}
	}
	want := []string{
		"test informer pods default a 1 whole view",
		"test informer pods default a 1 put",
		"test informer pods default a 1 deleted",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("hops (-want +got):\n%s", diff)
	}
}

// TestLister covers checklist E68 and E69.
func TestLister(t *testing.T) {
	p := prepare()
	red, blue := pod("red", "1", 1), pod("blue", "2", 2)
	red.Labels, blue.Labels = map[string]string{"c": "red"}, map[string]string{"c": "blue"}
	other := pod("other", "3", 3)
	other.Namespace = "kube-system"
	p.sink.Replace(fabric.Position{Revision: 5}, []informer.Object{red, blue, other})
	l := p.Lister()

	selector := labels.SelectorFromSet(labels.Set{"c": "red"})
	for _, tt := range []struct {
		name string
		list func(labels.Selector) ([]*corev1.Pod, error)
		by   labels.Selector
		want []string
	}{
		{"all", l.List, labels.Everything(), []string{"blue", "other", "red"}},
		{"nil selects all", l.List, nil, []string{"blue", "other", "red"}},
		{"none", l.List, labels.Nothing(), nil},
		{"selected", l.List, selector, []string{"red"}},
		{"namespace", l.Namespace("default").List, labels.Everything(), []string{"blue", "red"}},
		{"selected in a namespace", l.Namespace("kube-system").List, selector, nil},
		{"unknown namespace", l.Namespace("nowhere").List, labels.Everything(), nil},
		{"the empty namespace is all", l.Namespace("").List, labels.Everything(), []string{"blue", "other", "red"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := tt.list(tt.by)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, obj := range found {
				names = append(names, obj.Name)
			}
			sort.Strings(names)
			if !slices.Equal(names, tt.want) {
				t.Errorf("found %q, want %q", names, tt.want)
			}
		})
	}
	if got, err := l.Namespace("default").Get("red"); err != nil || got != red {
		t.Errorf("Get returned %v, %v; want the stored pointer", got, err)
	}
	_, err := l.Namespace("default").Get("other")
	if !apierrors.IsNotFound(err) || err.Error() != `pods "other" not found` {
		t.Errorf("Get of a missing pod returned %v", err)
	}
}
