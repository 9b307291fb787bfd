package informer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/scheme"
)

// runFactory runs a factory until end is called; end waits for it.
func runFactory(t *testing.T, f *informer.Factory) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	synctest.Wait()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestWatchers checks what each informer follows and how far it is behind, as rows, as JSON and as
// metrics under upstream's names (checklist H136 and more).
func TestWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, registry := &script{}, prometheus.NewRegistry()
		f := informer.NewFactory(informer.FactoryConfig{Source: source, Table: scheme.New(), Registerer: registry, Service: "test"})
		pods := informer.For[*corev1.Pod](f)
		informer.ForView[*corev1.Pod](f, informer.View{Scope: "node-1"}) // the same metric labels
		defer runFactory(t, f)()
		sink := settled{source.followers[0].sink}
		gate := make(chan struct{})
		defer close(gate)
		if _, err := pods.AddEventHandlerWithOptions(gated(&recorder{}, gate), informer.HandlerOptions{Name: "slow"}); err != nil {
			t.Fatal(err)
		}
		sink.Replace(fabric.Position{Revision: 10}, []informer.Object{pod("a", "1", 3)})
		sink.Apply([]informer.Change{put(pod("a", "1", 12)), put(pod("b", "1", 14))}, 14)
		time.Sleep(3 * time.Second)
		go func() {
			short, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := pods.WaitForRevision(short, 20); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		time.Sleep(2 * time.Second)

		recorder := httptest.NewRecorder()
		watcher.Serve(f.Watchers).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/watchers", nil))
		var rows []watcher.Status
		if err := json.Unmarshal(recorder.Body.Bytes(), &rows); err != nil {
			t.Fatal(err)
		}
		if len(rows) != 2 || rows[1].View.Scope != "node-1" || rows[1].Synced || rows[1].SilentSeconds != -1 {
			t.Fatalf("the rows are %+v", rows)
		}
		w := rows[0]
		if w.Service != "test" || w.Resource != "pods" || w.Version != "v1" || !w.Started || !w.Synced || w.Stopped ||
			w.Objects != 2 || w.Revision != 14 || w.LagRevisions != 6 || w.LagSeconds != 2 || w.SilentSeconds != 5 {
			t.Errorf("the row is %+v", w)
		}
		if h := w.Handlers[0]; h.Name != "slow" || h.Pending != 2 || h.Synced || h.LagRevisions != 5 || h.LagSeconds != 5 {
			t.Errorf("the handler's row is %+v", h)
		}
		for _, tt := range []struct {
			name, label, value string
			want               float64
		}{
			{"informer_objects", "resource", "pods", 2},
			{"informer_revision", "resource", "pods", 0}, // of the view that has none yet
			{"informer_lag_revisions", "handler", "", 6},
			{"informer_lag_revisions", "handler", "slow", 5},
			{"informer_lag_seconds", "handler", "", 2},
			{"informer_lag_seconds", "handler", "slow", 5},
			{"informer_silent_seconds", "service", "test", 5},
			{"informer_pending_notifications", "handler", "slow", 2},
			{"informer_changes_total", "resource", "pods", 3},
			{"informer_queued_items", "name", "test", 0},
			{"informer_store_resource_version", "version", "v1", 0},
			{"informer_processing_latency_seconds", "name", "test", 2},
		} {
			if got := gathered(t, registry, tt.name, tt.label, tt.value); got != tt.want {
				t.Errorf("%s{%s=%q} is %v, want %v", tt.name, tt.label, tt.value, got, tt.want)
			}
		}
		sink.Apply(nil, 20)
		if w := f.Watchers()[0]; w.LagRevisions != 0 || w.LagSeconds != 0 {
			t.Errorf("after catching up %+v", w)
		}

		recorder = httptest.NewRecorder()
		watcher.Serve(f.Watchers).ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/watchers", nil))
		if recorder.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST returned %d", recorder.Code)
		}
	})
}

// TestMetricsEndWithTheInformer checks that an ended informer is no longer in the metrics.
func TestMetricsEndWithTheInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		p := runWith(t, informer.Config{Registerer: registry, Service: "test"})
		p.sink.Replace(fabric.Position{Revision: 5}, nil)
		if v := gathered(t, registry, "informer_revision", "service", "test"); v != 5 {
			t.Errorf("the revision is %v", v)
		}
		p.end()
		if v := gathered(t, registry, "informer_revision", "service", "test"); v != -1 {
			t.Errorf("the revision after the end is %v", v)
		}
	})
}

// TestAcquire checks that an acquired informer ends when its last user releases it.
func TestAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &script{}
		f := informer.NewFactory(informer.FactoryConfig{Source: source, Table: scheme.New()})
		view := informer.View{Namespace: "ns"}
		never, releaseNever := informer.Acquire[*corev1.Node](f, view)
		releaseNever()
		if !never.IsStopped() {
			t.Error("an informer that was released before Run has not ended")
		}
		defer runFactory(t, f)()
		first, releaseFirst := informer.Acquire[*corev1.Pod](f, view)
		second, releaseSecond := informer.Acquire[*corev1.Pod](f, view)
		if first != second {
			t.Error("two informers of one view")
		}
		synctest.Wait()
		releaseFirst()
		releaseFirst()
		synctest.Wait()
		if first.IsStopped() || !first.HasStarted() {
			t.Error("it ended while it was used")
		}
		releaseSecond()
		synctest.Wait()
		if !first.IsStopped() || len(f.Watchers()) != 0 {
			t.Errorf("stopped %v, the factory still has %+v", first.IsStopped(), f.Watchers())
		}
		third, releaseThird := informer.Acquire[*corev1.Pod](f, view)
		if third == first {
			t.Error("Acquire returned a stopped informer")
		}
		kept := informer.ForView[*corev1.Pod](f, view)
		releaseThird()
		synctest.Wait()
		if kept != third || kept.IsStopped() {
			t.Error("an informer that ForView returned was stopped")
		}
	})
}

// TestFactoryRunsOnce checks that Run starts all informers, once, and waits for all of them
// (checklist I138, I140).
func TestFactoryRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := informer.NewFactory(informer.FactoryConfig{Source: &script{}, Table: scheme.New()})
		pods := informer.For[*corev1.Pod](f)
		end := runFactory(t, f)
		if err := f.Run(t.Context()); err == nil {
			t.Error("a factory ran twice")
		}
		end()
		if !pods.IsStopped() {
			t.Error("Run returned before an informer had ended")
		}
	})
}

// TestFactoryStoppedInItsFirstSync checks that a factory stopped during its first sync ends at
// once, and so do calls that wait for its informers.
func TestFactoryStoppedInItsFirstSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &script{}
		f := informer.NewFactory(informer.FactoryConfig{Source: source, Table: scheme.New()})
		pods, nodes := informer.For[*corev1.Pod](f), informer.For[*corev1.Node](f)
		gate := make(chan struct{})
		slow, err := pods.AddEventHandler(gated(&recorder{}, gate))
		if err != nil {
			t.Fatal(err)
		}
		end := runFactory(t, f)
		source.followers[0].sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1), pod("b", "1", 1)})
		waited := make(chan error, 1)
		go func() { waited <- nodes.WaitForRevision(t.Context(), 5) }()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.WaitForCacheSync(short); err == nil || !strings.Contains(err.Error(), "nodes") || strings.Contains(err.Error(), "pods") {
			t.Errorf("the wait returned %v", err)
		}
		time.AfterFunc(time.Second, func() { close(gate) })
		end()
		if err := <-waited; !errors.Is(err, informer.ErrStopped) {
			t.Errorf("waiting for a revision returned %v", err)
		}
		if nodes.HasSynced() || slow.HasSynced() {
			t.Error("HasSynced is true for an informer or handler that did not sync")
		}
	})
}

// TestWaitForHandlerSync checks that waiting for stores does not wait for handlers, and that there
// is a wait for both (checklist I139).
func TestWaitForHandlerSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &script{}
		f := informer.NewFactory(informer.FactoryConfig{Source: source, Table: scheme.New()})
		gate := make(chan struct{})
		if _, err := informer.For[*corev1.Pod](f).AddEventHandlerWithOptions(gated(&recorder{}, gate), informer.HandlerOptions{Name: "slow"}); err != nil {
			t.Fatal(err)
		}
		defer runFactory(t, f)()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		source.followers[0].sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1)})
		if err := f.WaitForCacheSync(short); err != nil {
			t.Error(err)
		}
		if err := f.WaitForHandlerSync(short); err == nil || !strings.Contains(err.Error(), "pods at slow") {
			t.Errorf("the wait returned %v", err)
		}
		close(gate)
		if err := f.WaitForHandlerSync(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestBadHandlers combines a handler that blocks for a minute, one that panics, and one that uses
// the informer: each gets all its changes, and the informer ends.
func TestBadHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, good := run(t), &recorder{}
		slowCalls, reentrant := 0, 0
		handle(t, p, informer.ResourceEventHandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, _ *corev1.Pod) {
			time.Sleep(time.Minute)
			slowCalls++
		}})
		handle(t, p, informer.ResourceEventHandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, _ *corev1.Pod) { panic("no") }})
		handle(t, p, informer.ResourceEventHandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, obj *corev1.Pod) {
			other := handle(t, p, &recorder{})
			err := errors.Join(p.RemoveEventHandler(other), p.WaitForRevision(t.Context(), 1), p.AddIndexers(informer.Indexers[*corev1.Pod]{
				"by " + obj.ResourceVersion: byNode,
			}), second(p.Lister().List(nil)))
			if err != nil || len(p.Status().Handlers) < 4 {
				t.Errorf("using the informer: %v", err)
			}
			reentrant++
		}})
		handle(t, p, good)
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1)})
		for revision := int64(2); revision <= 11; revision++ {
			p.sink.Apply([]informer.Change{put(pod("a", "1", revision))}, revision)
		}
		if n := len(good.take()); n != 11 {
			t.Errorf("the good handler got %d calls, want 11", n)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if slowCalls != 10 || reentrant != 10 {
			t.Errorf("the slow one got %d, the reentrant one %d, want 10", slowCalls, reentrant)
		}
		if panics := p.Status().Handlers[1].Panics; panics != 10 {
			t.Errorf("%d panics", panics)
		}
	})
}

// TestHandlersRemovedWhileEventsFlow adds and shuts down handlers in two goroutines while events
// flow. No handler is called after its shutdown, and another handler gets the last change. It is
// for the race detector.
func TestHandlersRemovedWhileEventsFlow(t *testing.T) {
	p := prepare()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	all := make(chan struct{})
	const changes = 5000
	if _, err := p.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, obj *corev1.Pod) {
		if obj.ResourceVersion == fmt.Sprint(changes) {
			close(all)
		}
	}}); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- p.Run(ctx) }()
	for !p.HasStarted() {
		// Run has just begun; before that the sink would work in this goroutine.
		if ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
	}
	var running sync.WaitGroup
	running.Go(func() {
		p.sink.Replace(fabric.Position{Revision: 1}, []informer.Object{pod("a", "1", 1)})
		for revision := int64(2); revision <= changes; revision++ {
			p.sink.Apply([]informer.Change{put(pod("a", "1", revision))}, revision)
		}
	})
	for range 2 {
		running.Go(func() {
			for range 100 {
				removed := false
				var mu sync.Mutex
				registration, err := p.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, _ *corev1.Pod) {
					mu.Lock()
					defer mu.Unlock()
					if removed {
						t.Error("a call after the handler was shut down")
					}
				}})
				if err != nil {
					t.Error(err)
					return
				}
				if err := p.ShutDownEventHandler(registration); err != nil {
					t.Error(err)
				}
				mu.Lock()
				removed = true
				mu.Unlock()
			}
		})
	}
	running.Wait()
	<-all
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func second[A any](_ A, err error) error { return err }
