package controller_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// longestRest is that of the package.
const longestRest = 100 * time.Millisecond

// TestKeysRest changes an object every millisecond for a second, and checks that its key is not reconciled
// all the time, and that the last change is not missed.
func TestKeysRest(t *testing.T) {
	for name, test := range map[string]struct {
		took    time.Duration
		atLeast int
		atMost  int
	}{
		"one that costs nothing":  {0, 1000, 1001},
		"one of 5 ms":             {5 * time.Millisecond, 45, 52},
		"the rest has a limit":    {100 * time.Millisecond, 5, 7},
		"one that costs a little": {time.Millisecond, 240, 260},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reconciles, saw := 0, ""
				p := controltest.New(t)
				p.Declare(func(d controller.Deps) *controller.Spec {
					sets := controller.For[*appsv1.ReplicaSet](d)
					return &controller.Spec{
						Name: "test-controller", Resource: "replicasets", For: sets,
						Reconcile: func(_ context.Context, key controller.Key) (reconcile.Result, error) {
							reconciles++
							if set, found := sets.Get(key); found {
								saw = set.Labels["n"]
							}
							time.Sleep(test.took)
							return reconcile.Result{}, nil
						},
					}
				})
				p.Start()
				p.Load(replicaSet("web", nil))
				for i := range 1000 {
					controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"n": fmt.Sprint(i)} })
					time.Sleep(time.Millisecond)
				}
				time.Sleep(2 * longestRest)
				synctest.Wait()
				if reconciles < test.atLeast || reconciles > test.atMost {
					t.Errorf("got %d reconciles, want %d to %d", reconciles, test.atLeast, test.atMost)
				}
				if saw != "999" {
					t.Errorf("the last reconcile saw change %s, want 999", saw)
				}
			})
		})
	}
}

// TestKeysInACrowdRestLonger changes objects, and checks that a few are reconciled each time, that many are reconciled
// once in the longest rest at most, however slowly they change, and that no last change is missed.
func TestKeysInACrowdRestLonger(t *testing.T) {
	const during = 12 * time.Second
	for name, test := range map[string]struct {
		keys            int
		every, batch    time.Duration
		atLeast, atMost int
	}{
		"a few":                               {45, 100 * time.Millisecond, 0, 116, 122},
		"some":                                {80, 200 * time.Millisecond, 0, 15, 18},
		"many":                                {120, 200 * time.Millisecond, 0, 12, 16},
		"many, in batches":                    {150, 200 * time.Millisecond, 3 * time.Second, 4, 7},
		"many that change slowly, in batches": {150, 2 * time.Second, 3 * time.Second, 3, 6},
		"a few, in batches":                   {45, 100 * time.Millisecond, 3 * time.Second, 116, 122},
	} {
		synctest.Test(t, func(t *testing.T) {
			reconciles, saw := map[string]int{}, map[string]string{}
			p := controltest.New(t)
			p.Declare(func(d controller.Deps) *controller.Spec {
				sets := controller.For[*appsv1.ReplicaSet](d)
				return &controller.Spec{
					Name: "test-controller", Resource: "replicasets", For: sets, BatchPeriod: test.batch,
					Reconcile: func(_ context.Context, key controller.Key) (reconcile.Result, error) {
						reconciles[key.Name]++
						if set, found := sets.Get(key); found {
							saw[key.Name] = set.Labels["n"]
						}
						return reconcile.Result{}, nil
					},
				}
			})
			p.Start()
			for i := range test.keys {
				p.Load(replicaSet(fmt.Sprint("web-", i), nil))
			}
			last := ""
			for n := range int(during / test.every) {
				last = fmt.Sprint(n)
				for i := range test.keys {
					controltest.Change(p, "default", fmt.Sprint("web-", i), func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"n": last} })
				}
				time.Sleep(test.every)
			}
			time.Sleep(4 * time.Second)
			synctest.Wait()
			for i := range test.keys {
				key := fmt.Sprint("web-", i)
				if got := reconciles[key]; got < test.atLeast || got > test.atMost {
					t.Fatalf("%s: %s was reconciled %d times, want %d to %d", name, key, got, test.atLeast, test.atMost)
				}
				if saw[key] != last {
					t.Fatalf("%s: %s was last seen with change %s", name, key, saw[key])
				}
			}
		})
	}
}

// TestBatch changes many objects three times within a second, after a long rest, and checks that nearly all are
// reconciled once, and that a single change is reconciled at once when the crowd is gone.
func TestBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys = 400
		reconciles := 0
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			return &controller.Spec{
				Name: "test-controller", Resource: "replicasets", For: controller.For[*appsv1.ReplicaSet](d), BatchPeriod: 3 * time.Second,
				Reconcile: func(context.Context, controller.Key) (reconcile.Result, error) {
					reconciles++
					return reconcile.Result{}, nil
				},
			}
		})
		p.Start()
		change := func(keys int, label string) {
			for i := range keys {
				controltest.Change(p, "default", fmt.Sprint("web-", i), func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"n": label} })
			}
		}
		for i := range keys {
			p.Load(replicaSet(fmt.Sprint("web-", i), nil))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		reconciles = 0
		for i := range 3 {
			change(keys, fmt.Sprint(i))
			time.Sleep(400 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		if synctest.Wait(); reconciles < keys || reconciles > keys+keys/2 {
			t.Errorf("%d reconciles of %d keys", reconciles, keys)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		reconciles = 0
		change(1, "alone")
		time.Sleep(200 * time.Millisecond)
		if synctest.Wait(); reconciles != 1 {
			t.Errorf("%d reconciles of a key that changes alone", reconciles)
		}
	})
}

// TestABatchDoesNotDelayRepeats checks that keys that fail once in a crowd are repeated after the queue's back-off alone.
func TestABatchDoesNotDelayRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keys, failing = 150, 80 // The queue repeats a hundred at once.
		at := map[string][]time.Time{}
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			return &controller.Spec{
				Name: "test-controller", Resource: "replicasets", For: controller.For[*appsv1.ReplicaSet](d), BatchPeriod: 3 * time.Second,
				Reconcile: func(_ context.Context, key controller.Key) (reconcile.Result, error) {
					if at[key.Name] = append(at[key.Name], time.Now()); len(at[key.Name]) == 1 && len(at) <= failing {
						return reconcile.Result{}, errors.New("refused")
					}
					return reconcile.Result{}, nil
				},
			}
		})
		stop := p.Start()
		for i := range keys {
			p.Load(replicaSet(fmt.Sprint("web-", i), nil))
		}
		time.Sleep(time.Minute)
		stop()
		repeated := 0
		for key, times := range at {
			if len(times) == 2 {
				repeated++
			}
			if len(times) > 2 || times[len(times)-1].Sub(times[0]) > time.Second {
				t.Errorf("%s was reconciled at %v", key, times)
			}
		}
		if len(at) != keys || repeated != failing {
			t.Errorf("%d keys were reconciled, %d of them twice", len(at), repeated)
		}
	})
}

// TestRestsKeepTheBackOff checks that a key that fails is repeated after the queue's back-off, which grows.
func TestRestsKeepTheBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			return &controller.Spec{
				Name: "test-controller", Resource: "replicasets", For: controller.For[*appsv1.ReplicaSet](d),
				Reconcile: func(context.Context, controller.Key) (reconcile.Result, error) {
					at = append(at, time.Now())
					time.Sleep(time.Second)
					return reconcile.Result{}, errors.New("refused")
				},
			}
		})
		stop := p.Start()
		p.Load(replicaSet("web", nil))
		time.Sleep(time.Minute)
		stop()
		if n := len(at); n < 8 || at[n-1].Sub(at[n-2]) < at[1].Sub(at[0])+time.Second {
			t.Errorf("got reconciles at %v", at)
		}
	})
}
