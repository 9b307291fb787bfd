package reconcile_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
)

// late is a source whose statements arrive late.
type late struct {
	informer.Source
	delay *atomic.Int64
}

func (l late) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	return l.Source.Follower(kind, view, lateSink{sink, l.delay})
}

type lateSink struct {
	informer.Sink
	delay *atomic.Int64
}

func (l lateSink) Apply(changes []informer.Change, revision int64) {
	time.Sleep(time.Duration(l.delay.Load()))
	l.Sink.Apply(changes, revision)
}

// plane is an API in memory with a late informer of config maps.
type plane struct {
	api   *fake.Client
	maps  informer.SharedInformer[*corev1.ConfigMap]
	delay atomic.Int64
	// writes, unless nil, returns the client with which the controller writes.
	writes func(client.Interface) client.Interface

	mu    sync.Mutex
	begin time.Time
	times map[string][]time.Duration
}

// reconciled returns the times of reconciles by key, in seconds since one second after the start.
func (p *plane) reconciled() map[string][]time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.times
}

func (p *plane) note(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times[key] = append(p.times[key], time.Since(p.begin).Round(time.Second)/time.Second-1)
}

// run creates a plane and a controller. The controller creates a config map with a generated name
// in the namespace of the key, if its cache shows none there.
func (p *plane) run(t *testing.T, cfg reconcile.Config[string], reads bool) *reconcile.Controller[string] {
	t.Helper()
	p.api = fake.New(scheme.New())
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: late{listwatch.New(p.api, nil), &p.delay}, Table: p.api.Table(), Logger: quiet,
	})
	p.maps = informer.For[*corev1.ConfigMap](factory)
	var caches reconcile.Caches
	reconcile.Reads(&caches, p.maps)
	if reads {
		cfg.Reads = &caches
	}
	var api client.Interface = p.api
	if p.writes != nil {
		api = p.writes(api)
	}
	write := client.Of[*corev1.ConfigMap](reconcile.Recording(api))
	cfg.Name, cfg.Logger, cfg.WaitFor = "test", quiet, waitFor(p.maps.HasSyncedChecker())
	p.begin, p.times = time.Now(), map[string][]time.Duration{}
	cfg.Reconcile = func(ctx context.Context, key string) (reconcile.Result, error) {
		p.note(key)
		namespace, _, _ := strings.Cut(key, "#") // An object may have several keys.
		found, err := p.maps.Indexer().ByIndex(informer.NamespaceIndex, namespace)
		if err != nil || len(found) > 0 {
			return reconcile.Result{}, err
		}
		_, err = write.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "m-"}}, metav1.CreateOptions{})
		return reconcile.Result{}, err
	}
	c := reconcile.New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- factory.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the factory: %v", err)
		}
	})
	start(t, c)
	return c
}

func (p *plane) count(t *testing.T) int {
	t.Helper()
	found, _, err := client.Of[*corev1.ConfigMap](p.api).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return len(found)
}

// TestReadYourOwnWrites checks that a controller does not act on a cache that is older than its own
// last write. Without Reads it does, which shows that the test can fail.
func TestReadYourOwnWrites(t *testing.T) {
	for _, tt := range []struct {
		reads bool
		want  int
	}{{true, 1}, {false, 3}} {
		t.Run(fmt.Sprintf("reads %v", tt.reads), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p plane
				c := p.run(t, reconcile.Config[string]{}, tt.reads)
				time.Sleep(time.Second)
				p.delay.Store(int64(3 * time.Second))
				for range 3 {
					c.Enqueue("a")
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				if got := p.count(t); got != tt.want {
					t.Errorf("%d objects were made, want %d", got, tt.want)
				}
			})
		})
	}
}

// TestKeysOfOneObject checks that what was written for one key of an object holds back its other keys, and
// that no two workers have the object. Without Object each key is one of its own, which shows that the test
// can fail.
func TestKeysOfOneObject(t *testing.T) {
	for _, tt := range []struct {
		object func(string) string
		want   int
	}{{func(key string) string { return strings.TrimRight(key, "#12") }, 1}, {nil, 3}} {
		t.Run(fmt.Sprintf("told %v", tt.object != nil), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p plane
				c := p.run(t, reconcile.Config[string]{Object: tt.object, Workers: 3}, true)
				time.Sleep(time.Second)
				p.delay.Store(int64(3 * time.Second))
				for _, key := range []string{"a#1", "a#2", "a", "a#1"} {
					c.Enqueue(key)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				if got := p.count(t); got != tt.want {
					t.Errorf("%d objects were made, want %d", got, tt.want)
				}
			})
		})
	}
}

// TestOtherKeysDoNotWait checks that another key does not wait for this one's writes.
func TestOtherKeysDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p plane
		c := p.run(t, reconcile.Config[string]{}, true)
		time.Sleep(time.Second)
		p.delay.Store(int64(3 * time.Second))
		c.Enqueue("a")
		synctest.Wait()
		c.Enqueue("b")
		synctest.Wait()
		if got := p.count(t); got != 2 {
			t.Errorf("%d objects were made at once, want 2", got)
		}
		time.Sleep(time.Minute)
	})
}

// TestKeysThatWaitForACacheHoldNoWorker checks that keys whose caches lag hold no worker. With one
// worker and five such keys, a sixth is reconciled at once, and each of the five when the cache has
// caught up with it.
func TestKeysThatWaitForACacheHoldNoWorker(t *testing.T) {
	for _, priority := range []bool{false, true} {
		t.Run(fmt.Sprintf("priority %v", priority), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var p plane
				registry := prometheus.NewRegistry()
				c := p.run(t, reconcile.Config[string]{
					Registerer: registry, RateLimiter: unasked{t}, Priority: priority, ReadTimeout: time.Minute,
				}, true)
				time.Sleep(time.Second)
				p.delay.Store(int64(4 * time.Second)) // one change after the other
				slow := []string{"a", "b", "c", "d", "e"}
				for range 3 { // The second and third time, the cache is behind.
					for _, key := range slow {
						c.Enqueue(key)
					}
					synctest.Wait()
				}
				c.Enqueue("f")
				synctest.Wait()
				if want := map[string][]time.Duration{"a": {0}, "b": {0}, "c": {0}, "d": {0}, "e": {0}, "f": {0}}; !reflect.DeepEqual(p.reconciled(), want) {
					t.Errorf("at once, reconciled were %v, want %v", p.reconciled(), want)
				}
				if got := c.Len(); got != 0 {
					t.Errorf("%d keys wait for a worker", got)
				}
				time.Sleep(time.Minute)
				want := map[string][]time.Duration{"a": {0, 4}, "b": {0, 8}, "c": {0, 12}, "d": {0, 16}, "e": {0, 20}, "f": {0}}
				if got := p.reconciled(); !reflect.DeepEqual(got, want) {
					t.Errorf("reconciled were %v, want %v", got, want)
				}
				if got := p.count(t); got != 6 {
					t.Errorf("%d objects were made, want 6", got)
				}
				for _, name := range []string{
					"workqueue_retries_total", "workqueue_depth", "garboard_reconcile_stale_total", "controller_runtime_reconcile_errors_total",
				} {
					if got := metric(t, registry, name); got != 0 {
						t.Errorf("%s is %v", name, got)
					}
				}
			})
		})
	}
}

// unasked is a rate limiter that must not be called.
type unasked struct{ t *testing.T }

func (u unasked) When(key string) time.Duration {
	u.t.Errorf("the rate limiter was asked about %s", key)
	return 0
}

func (unasked) Forget(string) {}

func (unasked) NumRequeues(string) int { return 0 }

// TestACacheThatNeverShowsAWrite checks that a key waits for a bounded time and is then tried
// again, and that it is reconciled anyway after five minutes.
func TestACacheThatNeverShowsAWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p plane
		registry := prometheus.NewRegistry()
		c := p.run(t, reconcile.Config[string]{Registerer: registry, ReadTimeout: 2 * time.Second}, true)
		time.Sleep(time.Second)
		p.delay.Store(int64(10 * time.Minute))
		c.Enqueue("a")
		synctest.Wait()
		c.Enqueue("a")
		time.Sleep(4 * time.Minute)
		if got := p.count(t); got != 1 {
			t.Errorf("%d objects were made in four minutes, want 1", got)
		}
		if got := metric(t, registry, "garboard_reconcile_stale_total"); got != 80 {
			t.Errorf("the key was put back %v times, want 80: it waits two seconds, and is put back for one", got)
		}
		if got := metric(t, registry, "controller_runtime_reconcile_errors_total"); got != 0 {
			t.Errorf("%v errors", got)
		}
		time.Sleep(2 * time.Minute)
		if got := p.count(t); got != 2 {
			t.Errorf("%d objects after five minutes, want 2", got)
		}
		time.Sleep(10 * time.Minute)
	})
}

// TestRecordingNotesEveryKindOfWrite checks that the revision of every successful write is
// recorded, including deletions.
func TestRecordingNotesEveryKindOfWrite(t *testing.T) {
	for _, tt := range []struct {
		name   string
		write  func(ctx context.Context, maps client.Resource[*corev1.ConfigMap]) error
		waits  bool
		failed bool
	}{
		{"create", func(ctx context.Context, maps client.Resource[*corev1.ConfigMap]) error {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "new"}}, metav1.CreateOptions{})
			return err
		}, true, false},
		{"update", func(ctx context.Context, maps client.Resource[*corev1.ConfigMap]) error {
			_, err := maps.Update(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "old"}, Data: map[string]string{"a": "b"}}, metav1.UpdateOptions{})
			return err
		}, true, false},
		{"delete", func(ctx context.Context, maps client.Resource[*corev1.ConfigMap]) error {
			return maps.Delete(ctx, "a", "old", metav1.DeleteOptions{})
		}, true, false},
		{"delete of a missing object", func(ctx context.Context, maps client.Resource[*corev1.ConfigMap]) error {
			return maps.Delete(ctx, "a", "none", metav1.DeleteOptions{})
		}, false, true},
		{"get", func(ctx context.Context, maps client.Resource[*corev1.ConfigMap]) error {
			_, err := maps.Get(ctx, "a", "old", metav1.GetOptions{})
			return err
		}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := fake.New(scheme.New(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "old"}})
				var delay atomic.Int64
				maps := informer.NewSharedInformer[*corev1.ConfigMap](informer.Config{
					Source: late{listwatch.New(api, nil), &delay}, Table: api.Table(), Logger: quiet,
				}, informer.View{})
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- maps.Run(ctx) }()
				defer func() {
					cancel()
					if err := <-ended; err != nil {
						t.Error(err)
					}
				}()
				time.Sleep(time.Second)
				delay.Store(int64(3 * time.Second))
				var caches reconcile.Caches
				reconcile.Reads(&caches, maps)
				var at []time.Time
				write := client.Of[*corev1.ConfigMap](reconcile.Recording(api))
				c := reconcile.New(reconcile.Config[string]{
					Name: "test", Logger: quiet, Reads: &caches,
					Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
						at = append(at, time.Now())
						if len(at) > 1 {
							return reconcile.Result{}, nil
						}
						if err := tt.write(ctx, write); (err != nil) != tt.failed {
							t.Errorf("the write returned %v", err)
						}
						return reconcile.Result{RequeueAfter: time.Millisecond}, nil
					},
				})
				c.Enqueue("k")
				end := start(t, c)
				time.Sleep(time.Minute)
				end()
				if len(at) != 2 {
					t.Fatalf("%d reconciles, want 2", len(at))
				}
				if waited := at[1].Sub(at[0]) > time.Second; waited != tt.waits {
					t.Errorf("the second reconcile came after %v, want it to wait: %v", at[1].Sub(at[0]), tt.waits)
				}
			})
		})
	}
}
