package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/informer/workqueue"
	"github.com/garboard/garboard/libs/trace"
)

// start runs a controller until the test ends, or until the returned function is called.
func start(t *testing.T, c *reconcile.Controller[string]) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(end)
	return end
}

var quiet = slog.New(slog.DiscardHandler)

// TestWhatFollows checks what follows each outcome of a reconcile, by the times of the calls (item
// 152).
func TestWhatFollows(t *testing.T) {
	second := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
	failure := errors.New("no luck")
	for _, tt := range []struct {
		name       string
		maxRetries int
		outcomes   []error // of the first calls; later ones succeed
		result     reconcile.Result
		want       []time.Duration
	}{
		{"success", 0, nil, reconcile.Result{}, []time.Duration{0}},
		{"failures back off", 0, []error{failure, failure, failure}, reconcile.Result{}, []time.Duration{0, 1, 3, 7}},
		{"an error beats requeue after", 0, []error{failure, nil, nil}, reconcile.Result{RequeueAfter: 20 * time.Second}, []time.Duration{0, 1, 21, 41}},
		{"terminal", 0, []error{reconcile.TerminalError(failure)}, reconcile.Result{}, []time.Duration{0}},
		{"wrapped terminal", 0, []error{fmt.Errorf("more: %w", reconcile.TerminalError(failure))}, reconcile.Result{}, []time.Duration{0}},
		{"bounded retries", 2, []error{failure, failure, failure, failure}, reconcile.Result{}, []time.Duration{0, 1, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer second.Forget("default/a")
				begin := time.Now()
				var calls []time.Duration
				c := reconcile.New(reconcile.Config[string]{
					Name: "test", RateLimiter: second, MaxRetries: tt.maxRetries, Logger: quiet,
					Reconcile: func(context.Context, string) (reconcile.Result, error) {
						n := len(calls)
						calls = append(calls, time.Since(begin).Round(time.Second)/time.Second)
						if n < len(tt.outcomes) {
							return tt.result, tt.outcomes[n]
						}
						return reconcile.Result{}, nil
					},
				})
				c.Enqueue("default/a")
				end := start(t, c)
				time.Sleep(10 * time.Minute)
				end()
				if !slices.Equal(calls, tt.want) {
					t.Errorf("calls at %v s, want %v s", calls, tt.want)
				}
			})
		})
	}
}

func TestTerminalErrorKeepsItsCause(t *testing.T) {
	cause := errors.New("cause")
	if err := reconcile.TerminalError(cause); !errors.Is(err, cause) {
		t.Errorf("%v is not its cause", err)
	}
	if err := reconcile.TerminalError(nil); err != nil {
		t.Errorf("a terminal nil is %v", err)
	}
}

// TestPanicIsAnError covers item 153.
func TestPanicIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		registry := prometheus.NewRegistry()
		c := reconcile.New(reconcile.Config[string]{
			Name: "test", Registerer: registry, Logger: quiet,
			Reconcile: func(context.Context, string) (reconcile.Result, error) {
				if calls.Add(1) == 1 {
					panic("a bad object")
				}
				return reconcile.Result{}, nil
			},
		})
		c.Enqueue("a")
		end := start(t, c)
		time.Sleep(time.Minute)
		end()
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		want := map[string]float64{
			"controller_runtime_reconcile_panics_total": 1, "controller_runtime_reconcile_errors_total": 1,
			"controller_runtime_active_workers": 0, "controller_runtime_max_concurrent_reconciles": 1,
			"workqueue_adds_total": 2, "workqueue_retries_total": 1, "workqueue_depth": 0,
		}
		for name, value := range want {
			if got := metric(t, registry, name); got != value {
				t.Errorf("%s is %v, want %v", name, got, value)
			}
		}
	})
}

// metric sums the values of a metric family.
func metric(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		var sum float64
		for _, m := range family.GetMetric() {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		return sum
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

func TestControllersShareARegisterer(t *testing.T) {
	registry := prometheus.NewRegistry()
	for range 2 {
		reconcile.New(reconcile.Config[string]{Name: "same", Registerer: registry})
		reconcile.New(reconcile.Config[int]{Name: "other", Registerer: registry})
	}
}

// event is something to wait for.
type event struct {
	name string
	done chan struct{}
}

func (e event) Name() string          { return e.name }
func (e event) Done() <-chan struct{} { return e.done }

// happened returns a completed event, and pending one that is not.
func happened(name string) event {
	e := pending(name)
	close(e.done)
	return e
}

func pending(name string) event { return event{name: name, done: make(chan struct{})} }

func waitFor(events ...informer.DoneChecker) func() []informer.DoneChecker {
	return func() []informer.DoneChecker { return events }
}

// TestWorkersWaitForSync checks that nothing is reconciled before everything has synced (item 154).
func TestWorkersWaitForSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		synced := pending("late")
		var calls atomic.Int32
		c := reconcile.New(reconcile.Config[string]{
			Name: "test", WaitFor: waitFor(happened("early"), synced), CacheSyncTimeout: -1, Logger: quiet,
			Reconcile: func(context.Context, string) (reconcile.Result, error) {
				calls.Add(1)
				return reconcile.Result{}, nil
			},
		})
		c.Enqueue("a")
		start(t, c)
		time.Sleep(time.Hour)
		if calls.Load() != 0 {
			t.Fatal("a key was reconciled before the sync")
		}
		close(synced.done)
		synctest.Wait() // not a moment later
		if calls.Load() != 1 {
			t.Error("the key was not reconciled after the sync")
		}
	})
}

// TestCacheSyncTimeout checks that the error names what did not sync in time (item 154).
func TestCacheSyncTimeout(t *testing.T) {
	for _, tt := range []struct {
		name    string
		timeout time.Duration
		after   time.Duration
	}{
		{"two minutes", 0, 2 * time.Minute},
		{"another time", 10 * time.Second, 10 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := reconcile.New(reconcile.Config[string]{
					Name: "test", Logger: quiet, CacheSyncTimeout: tt.timeout,
					WaitFor: waitFor(happened("nodes"), pending("pods"), pending("pods at a handler")),
				})
				begin := time.Now()
				err := c.Run(t.Context())
				if err == nil || !strings.Contains(err.Error(), "pods, pods at a handler did") || strings.Contains(err.Error(), "nodes") {
					t.Errorf("Run returned %v, want the names of what did not sync", err)
				}
				if took := time.Since(begin); took != tt.after {
					t.Errorf("Run gave up after %v, want %v", took, tt.after)
				}
			})
		})
	}
}

// TestReconciliationTimeout checks that the context of a reconcile that takes too long ends, with
// the cause (item 153).
func TestReconciliationTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		var causes []error
		c := reconcile.New(reconcile.Config[string]{
			Name: "test", Registerer: registry, Logger: quiet, ReconciliationTimeout: time.Minute, MaxRetries: 1,
			Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
				if len(causes) == 1 {
					causes = append(causes, nil)
					return reconcile.Result{}, nil // The second call is quick.
				}
				<-ctx.Done()
				causes = append(causes, context.Cause(ctx))
				return reconcile.Result{}, ctx.Err()
			},
		})
		c.Enqueue("a")
		end := start(t, c)
		time.Sleep(time.Hour)
		end()
		if len(causes) != 2 || !errors.Is(causes[0], reconcile.ErrReconciliationTimeout) {
			t.Errorf("the causes were %v", causes)
		}
		if got := metric(t, registry, "controller_runtime_reconcile_timeouts_total"); got != 1 {
			t.Errorf("%v timeouts were counted, want 1", got)
		}
	})
}

// TestRequeueAfterWithAnErrorIsWarnedOf checks that RequeueAfter together with an error is ignored,
// with a warning (item 152).
func TestRequeueAfterWithAnErrorIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c := reconcile.New(reconcile.Config[string]{
			Name: "test", MaxRetries: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Reconcile: func(context.Context, string) (reconcile.Result, error) {
				return reconcile.Result{RequeueAfter: time.Hour}, reconcile.TerminalError(errors.New("no luck"))
			},
		})
		c.Enqueue("a")
		end := start(t, c)
		time.Sleep(time.Minute)
		end()
		if !strings.Contains(log.String(), "ignoring RequeueAfter") {
			t.Errorf("the log has no warning: %s", log.String())
		}
	})
}

func TestRunEndsBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := reconcile.New(reconcile.Config[string]{Name: "test", WaitFor: waitFor(pending("pods"))})
		end := start(t, c)
		synctest.Wait()
		end()
		if err := c.Run(t.Context()); err == nil {
			t.Error("a controller ran twice")
		}
	})
}

// TestRunEndsAfterItsWorkers checks that Run returns when the reconciles have returned. Waiting
// keys are dropped, and nothing counts as a failure because of the end.
func TestRunEndsAfterItsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, ended atomic.Int32
		c := reconcile.New(reconcile.Config[string]{
			Name: "test", Workers: 2,
			Reconcile: func(ctx context.Context, _ string) (reconcile.Result, error) {
				calls.Add(1)
				<-ctx.Done()
				time.Sleep(time.Second)
				ended.Add(1)
				return reconcile.Result{}, ctx.Err()
			},
		})
		for _, key := range []string{"a", "b", "c"} {
			c.Enqueue(key)
		}
		end := start(t, c)
		synctest.Wait()
		end()
		if calls.Load() != 2 || ended.Load() != 2 {
			t.Errorf("%d calls began and %d ended, want 2 and 2", calls.Load(), ended.Load())
		}
	})
}

// TestChangesDuringAReconcile checks that a thousand changes during one reconcile cost one more,
// and that no key is with two workers.
func TestChangesDuringAReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		calls, busy := 0, false
		var c *reconcile.Controller[string]
		c = reconcile.New(reconcile.Config[string]{
			Name: "test", Workers: 4,
			Reconcile: func(context.Context, string) (reconcile.Result, error) {
				mu.Lock()
				if busy {
					t.Error("a key is with two workers")
				}
				calls, busy = calls+1, true
				first := calls == 1
				mu.Unlock()
				if first {
					for range 1000 {
						c.Enqueue("a")
					}
				}
				time.Sleep(time.Second)
				mu.Lock()
				busy = false
				mu.Unlock()
				return reconcile.Result{}, nil
			},
		})
		c.Enqueue("a")
		end := start(t, c)
		time.Sleep(time.Minute)
		end()
		if calls != 2 {
			t.Errorf("%d reconciles, want 2", calls)
		}
	})
}

func TestHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hops := trace.NewRecorder(10)
		c := reconcile.New(reconcile.Config[string]{
			Name: "test-controller", Resource: "pods", Trace: hops,
			Reconcile: func(context.Context, string) (reconcile.Result, error) {
				time.Sleep(3 * time.Second)
				return reconcile.Result{}, nil
			},
		})
		c.Enqueue("default/a")
		time.Sleep(2 * time.Second)
		end := start(t, c)
		time.Sleep(time.Minute)
		end()
		got := hops.Hops(func(trace.Hop) bool { return true })
		if len(got) != 2 {
			t.Fatalf("%d hops, want 2", len(got))
		}
		for i, want := range []trace.Hop{
			{Step: trace.Queue, Took: 2 * time.Second},
			{Step: trace.Reconcile, Took: 3 * time.Second, Detail: "success"},
		} {
			want.Service, want.Resource, want.Namespace, want.Name = "test-controller", "pods", "default", "a"
			want.Time = got[i].Time
			if got[i] != want {
				t.Errorf("hop %d is %+v, want %+v", i, got[i], want)
			}
		}
	})
}
