package informer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// TestQueueBeforeTheStore checks that the store does not block the follower until 2,000 changes
// wait, and then does. Nothing is lost, and progress moves the version in its turn (checklist F89,
// F90, F91).
func TestQueueBeforeTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := prepare(), &recorder{}
		gate := make(chan struct{})
		if err := p.AddIndexers(informer.Indexers[*corev1.Pod]{"slow": func(*corev1.Pod) ([]string, error) {
			<-gate
			return nil, nil
		}}); err != nil {
			t.Fatal(err)
		}
		handle(t, p, r)
		p.start(t)
		sink := p.sink.(settled).Sink
		sent := make(chan int, 10_000)
		go func() {
			sink.Replace(fabric.Position{Revision: 1}, nil)
			for i := range 5000 {
				revision := int64(i + 2)
				sink.Apply([]informer.Change{put(pod(fmt.Sprint(i), fmt.Sprint(i), revision))}, revision)
				sent <- i
			}
			sink.Apply(nil, 6000)
		}()
		synctest.Wait()
		if n := len(sent); n < 2000 || n > 3000 {
			t.Errorf("the follower reached change %d before it had to wait, want 2000 and those being processed", n)
		}
		close(gate)
		if n := len(r.take()); n != 5000 {
			t.Errorf("%d calls, want 5000", n)
		}
		if v := p.LastSyncResourceVersion(); v != "6000" {
			t.Errorf("the version is %q", v)
		}
	})
}

// TestTransform checks that the transform is called once for each object, and that handlers and
// store see only its result. An object for which it fails keeps its former state (checklist F92,
// H132).
func TestTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		p, r := prepareWith(informer.Config{Registerer: registry}), &recorder{}
		asked := 0
		if err := p.SetTransform(func(obj *corev1.Pod) (*corev1.Pod, error) {
			asked++
			switch obj.Annotations["do"] {
			case "fail":
				return nil, errors.New("no")
			case "panic":
				panic("no")
			case "lose":
				return nil, nil
			}
			return mark(obj), nil
		}); err != nil {
			t.Fatal(err)
		}
		handle(t, p, r)
		p.start(t)
		bad := func(name, do string, revision int64) *corev1.Pod {
			obj := pod(name, name, revision)
			obj.Annotations = map[string]string{"do": do}
			return obj
		}
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "a", 1), pod("b", "b", 1), pod("c", "c", 1), bad("never", "fail", 1)})
		if asked != 4 {
			t.Errorf("asked %d times for 4 objects", asked)
		}
		r.take()
		p.sink.Replace(fabric.Position{Revision: 2}, []informer.Object{pod("a", "a", 2), bad("b", "fail", 2), bad("c", "panic", 2), bad("never", "lose", 2)})
		p.sink.Apply([]informer.Change{put(bad("b", "panic", 3)), put(bad("c", "lose", 3)), put(pod("d", "d", 4))}, 4)
		gone := del(pod("b", "b", 5), 5)
		gone.Object = bad("b", "fail", 5)
		p.sink.Apply([]informer.Change{gone}, 5)
		want := []string{"update a/a@1-2", "add d/d@4", "delete default/b b@1"}
		if diff := cmp.Diff(want, r.take()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a@2", "c@1", "d@4"}, names(p.Indexer().List())); diff != "" {
			t.Errorf("the store (-want +got):\n%s", diff)
		}
		for _, obj := range p.Indexer().List() {
			if obj.Labels["marked"] != "yes" {
				t.Errorf("%s is not transformed", obj.Name)
			}
		}
		if n := gathered(t, registry, "informer_faults_total", "fault", "transform"); n != 7 {
			t.Errorf("the metric shows %v faults", n)
		}
		if err := p.SetTransform(nil); !errors.Is(err, informer.ErrStarted) {
			t.Errorf("item 125: setting a transform late returned %v", err)
		}
	})
}

// TestTransformOfAFactory checks that a factory's transform applies to all its informers (checklist
// I137).
func TestTransformOfAFactory(t *testing.T) {
	source := &script{}
	f := informer.NewFactory(informer.FactoryConfig{Source: source, Table: scheme.New(), Logger: slog.New(slog.DiscardHandler),
		Transform: func(obj informer.Object) (informer.Object, error) {
			if obj.GetName() == "other" {
				return &corev1.Node{}, nil
			}
			obj = obj.DeepCopyObject().(informer.Object)
			obj.SetManagedFields(nil)
			obj.SetLabels(map[string]string{"marked": "yes"})
			return obj, nil
		}})
	pods := informer.For[*corev1.Pod](f)
	source.followers[0].sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1), pod("other", "2", 1)})
	if got := pods.Indexer().List(); len(got) != 1 || got[0].Labels["marked"] != "yes" {
		t.Errorf("the store has %v", got)
	}
}

// TestWatchErrorHandler checks which handler hears that the view cannot be followed (checklist
// G104, H125).
func TestWatchErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		p := prepareWith(informer.Config{Registerer: registry})
		var told []error
		for _, handler := range []func(context.Context, error){
			func(context.Context, error) { t.Error("a handler other than the last one was called") },
			func(_ context.Context, err error) { told = append(told, err) },
		} {
			if err := p.SetWatchErrorHandler(handler); err != nil {
				t.Fatal(err)
			}
		}
		p.start(t)
		p.follow.sink.WatchError(t.Context(), io.ErrUnexpectedEOF)
		if len(told) != 1 || !errors.Is(told[0], io.ErrUnexpectedEOF) {
			t.Errorf("the handler got %v", told)
		}
		if n := gathered(t, registry, "informer_faults_total", "fault", "watch"); n != 1 {
			t.Errorf("the metric shows %v", n)
		}
		if err := p.SetWatchErrorHandler(nil); !errors.Is(err, informer.ErrStarted) {
			t.Errorf("setting it late returned %v", err)
		}
	})
}

// TestDoneCheckers checks that the channels are closed at that very moment, and that a wait names
// what is missing (checklist H119).
func TestDoneCheckers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t)
		gate := make(chan struct{})
		slow, err := p.AddEventHandlerWithOptions(gated(&recorder{}, gate), informer.HandlerOptions{Name: "slow"})
		if err != nil {
			t.Fatal(err)
		}
		cache, handler := p.HasSyncedChecker(), slow.HasSyncedChecker()
		if informer.IsDone(cache) || informer.IsDone(handler) {
			t.Error("done before the first whole view")
		}
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1)})
		if !informer.IsDone(cache) || informer.IsDone(handler) {
			t.Errorf("done: cache %v, handler %v", informer.IsDone(cache), informer.IsDone(handler))
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = informer.WaitFor(short, "the controller", cache, handler)
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != "waiting for the controller: pods at slow not synced: context deadline exceeded" {
			t.Errorf("the wait returned %v", err)
		}
		start := time.Now()
		time.AfterFunc(time.Second, func() { close(gate) })
		if err := informer.WaitFor(t.Context(), "the controller", cache, handler); err != nil {
			t.Error(err)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v, want a second", waited)
		}
		if err := informer.WaitFor(short, "nothing", cache, handler); err != nil {
			t.Errorf("a wait for done checkers failed because its context had ended: %v", err)
		}
	})
}

// TestShutDownEventHandler covers checklist H123.
func TestShutDownEventHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := run(t), &recorder{}
		gate := make(chan struct{})
		registration := handle(t, p, gated(r, gate))
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1), pod("b", "2", 1)})
		ended := make(chan error, 2)
		for range 2 {
			go func() { ended <- p.ShutDownEventHandler(registration) }()
		}
		synctest.Wait()
		if len(ended) != 0 {
			t.Error("it did not wait for the running call")
		}
		close(gate)
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if n := len(r.take()); n != 1 {
			t.Errorf("%d calls, want only the running one: pending calls are dropped", n)
		}
		idle := prepare() // never started
		if err := idle.ShutDownEventHandler(handle(t, idle, r)); err != nil {
			t.Error(err)
		}
		if err := idle.ShutDownEventHandler(registration); err != nil {
			t.Errorf("of another informer: %v", err)
		}
		if err := p.ShutDownEventHandler(nil); err == nil {
			t.Error("no error for a value that is not a registration")
		}
	})
}

// TestLifeOfAnInformer covers checklist H126 and H127.
func TestLifeOfAnInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := prepare(), &recorder{}
		if p.HasStarted() || p.IsStopped() || p.LastSyncResourceVersion() != "" {
			t.Error("a new informer is started, stopped or synced")
		}
		gate := make(chan struct{})
		handle(t, p, gated(r, gate))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		synctest.Wait()
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1), pod("b", "2", 1)})
		synctest.Wait()
		if err := p.Run(ctx); !errors.Is(err, informer.ErrStarted) {
			t.Errorf("running twice returned %v", err)
		}
		if !p.HasStarted() || p.IsStopped() {
			t.Error("it is not running")
		}
		cancel()
		synctest.Wait()
		if len(ended) != 0 || !p.IsStopped() {
			t.Errorf("while a handler runs: returned %v, stopped %v", len(ended) != 0, p.IsStopped())
		}
		close(gate)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if n := len(r.take()); n != 1 {
			t.Errorf("%d calls, want 1: pending calls are dropped", n)
		}
		if err := p.Run(t.Context()); err == nil {
			t.Error("a stopped informer ran again")
		}
	})
}

// TestResyncPeriods checks that each handler has its own period, at least a second (checklist H128,
// H129). Unlike client-go's informer, ours needs no period of its own, and does not raise a late
// handler's period to the others'.
func TestResyncPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := runWith(t, informer.Config{Resync: func(kind *scheme.Kind) time.Duration {
			if kind.Resource == "pods" {
				return time.Minute
			}
			return 0
		}})
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1)})
		for _, tt := range []struct {
			name  string
			opts  *informer.HandlerOptions // the informer's period when nil
			calls int                      // in two and a half minutes
		}{
			{"the informer's", nil, 2},
			{"none", &informer.HandlerOptions{}, 0},
			{"a shorter one, late", &informer.HandlerOptions{ResyncPeriod: 30 * time.Second}, 5},
			{"a longer one", &informer.HandlerOptions{ResyncPeriod: 2 * time.Minute}, 1},
			{"under a second", &informer.HandlerOptions{ResyncPeriod: time.Millisecond}, 150},
		} {
			r := &recorder{}
			var registration informer.Registration
			var err error
			if tt.opts == nil {
				registration, err = p.AddEventHandler(r)
			} else {
				registration, err = p.AddEventHandlerWithOptions(r, *tt.opts)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.take()
			time.Sleep(150*time.Second + time.Millisecond)
			calls := r.take()
			if len(calls) != tt.calls || len(calls) > 0 && calls[0] != "update a/1@1-1" {
				t.Errorf("%s: %d resyncs, want %d: %.3q", tt.name, len(calls), tt.calls, calls)
			}
			if err := p.RemoveEventHandler(registration); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestMutationDetector checks that a handler that changes a shared object is found (checklist
// H131).
func TestMutationDetector(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  informer.Config
		env  string
		want int
	}{
		{"by configuration", informer.Config{DetectMutations: true}, "", 1},
		{"by environment", informer.Config{}, "true", 1},
		{"off", informer.Config{}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv(informer.DetectMutationsVariable, tt.env)
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var found []string
				tt.cfg.OnMutation = func(err error) {
					mu.Lock()
					defer mu.Unlock()
					found = append(found, err.Error())
				}
				p, done := runWith(t, tt.cfg), make(chan struct{}, 1)
				handle(t, p, informer.ResourceEventHandlerFuncs[*corev1.Pod]{
					UpdateFunc: func(old, _ *corev1.Pod) {
						old.Labels = map[string]string{"stolen": "yes"}
						done <- struct{}{}
					},
				})
				p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1), pod("b", "2", 1)})
				p.sink.Apply([]informer.Change{del(pod("b", "2", 1), 2)}, 2)
				time.Sleep(3500 * time.Millisecond) // between two checks
				mu.Lock()
				if len(found) != 0 {
					t.Errorf("found %q before anything was changed", found)
				}
				mu.Unlock()
				p.sink.Apply([]informer.Change{put(pod("a", "1", 3))}, 3)
				<-done // Without this order the race detector would report the mutation by itself.
				p.sink.Apply([]informer.Change{put(pod("c", "3", 4))}, 4)
				time.Sleep(2 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				if len(found) != tt.want || tt.want > 0 && (!strings.Contains(found[0], "default/a") || !strings.Contains(found[0], "stolen")) {
					t.Errorf("found %q", found)
				}
			})
		})
	}
}

// TestDeletedObjectNames covers checklist H134.
func TestDeletedObjectNames(t *testing.T) {
	for key, want := range map[string][2]string{"ns/a": {"ns", "a"}, "a": {"", "a"}} {
		d := informer.DeletedObject[*corev1.Pod]{Key: key, FinalStateUnknown: true}
		if namespace, name := d.GetObjectName(); d.GetKey() != key || [2]string{namespace, name} != want {
			t.Errorf("%q has %q, %q", key, namespace, name)
		}
	}
}

// TestFilteringResourceEventHandler covers checklist H135.
func TestFilteringResourceEventHandler(t *testing.T) {
	r := &recorder{}
	h := informer.FilteringResourceEventHandler[*corev1.Pod]{
		FilterFunc: func(obj *corev1.Pod) bool { return obj.Name != "out" }, Handler: r,
	}
	in, out := pod("in", "1", 1), pod("out", "1", 2)
	h.OnAdd(in, true)
	h.OnAdd(out, true)
	h.OnUpdate(in, in)
	h.OnUpdate(out, in)
	h.OnUpdate(in, out)
	h.OnUpdate(out, out)
	h.OnDelete(informer.DeletedObject[*corev1.Pod]{Key: "default/in", OptionalObj: in, FinalStateUnknown: true})
	h.OnDelete(informer.DeletedObject[*corev1.Pod]{Key: "default/out", OptionalObj: out})
	want := []string{"initial in/1@1", "update in/1@1-1", "add in/1@1", "delete default/in 1@1", "delete default/in 1@1 unknown"}
	if !slices.Equal(r.calls, want) {
		t.Errorf("calls %q, want %q", r.calls, want)
	}
}

func names(objects []*corev1.Pod) []string {
	var found []string
	for _, obj := range objects {
		found = append(found, obj.Name+"@"+obj.ResourceVersion)
	}
	sort.Strings(found)
	return found
}
