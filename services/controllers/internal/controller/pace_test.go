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

// TestKeysInACrowdRestLonger changes objects twenty times a second, and checks that a few are reconciled each time, that
// many are reconciled once a second at most, and that no last change is missed.
func TestKeysInACrowdRestLonger(t *testing.T) {
	const seconds = 4
	for keys, want := range map[int]struct{ atLeast, atMost int }{15: {76, 82}, 200: {4, 7}} {
		synctest.Test(t, func(t *testing.T) {
			reconciles, saw := map[string]int{}, map[string]string{}
			p := controltest.New(t)
			p.Declare(func(d controller.Deps) *controller.Spec {
				sets := controller.For[*appsv1.ReplicaSet](d)
				return &controller.Spec{
					Name: "test-controller", Resource: "replicasets", For: sets,
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
			for i := range keys {
				p.Load(replicaSet(fmt.Sprint("web-", i), nil))
			}
			for n := range 20 * seconds {
				for i := range keys {
					controltest.Change(p, "default", fmt.Sprint("web-", i), func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"n": fmt.Sprint(n)} })
				}
				time.Sleep(50 * time.Millisecond)
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			for i := range keys {
				name := fmt.Sprint("web-", i)
				if got := reconciles[name]; got < want.atLeast || got > want.atMost {
					t.Fatalf("%d keys: %s was reconciled %d times, want %d to %d", keys, name, got, want.atLeast, want.atMost)
				}
				if saw[name] != fmt.Sprint(20*seconds-1) {
					t.Fatalf("%d keys: %s was last seen with change %s", keys, name, saw[name])
				}
			}
		})
	}
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
