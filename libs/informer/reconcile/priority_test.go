package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/informer/workqueue"
)

// versioned returns a pod with a name and a version.
func versioned(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: version}}
}

// prioritize returns a handler of pods for a controller.
func prioritize(c *reconcile.Controller[string]) informer.ResourceEventHandler[*corev1.Pod] {
	return reconcile.ByPriority(c, func(enqueue func(string)) informer.ResourceEventHandler[*corev1.Pod] {
		return reconcile.EnqueueObject[*corev1.Pod](enqueue)
	})
}

// TestInitialListWaitsForChanges checks that the initial list and updates with equal versions wait
// for everything else. A change lifts a key above them, to the end of the changed keys. Without
// Config.Priority everything is in order (item 156).
func TestInitialListWaitsForChanges(t *testing.T) {
	for _, tt := range []struct {
		priority bool
		want     []string
	}{
		{true, []string{"new", "changed", "gone", "second", "first", "third", "resynced"}},
		{false, []string{"first", "second", "third", "resynced", "new", "changed", "gone"}},
	} {
		t.Run(fmt.Sprint(tt.priority), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				c := reconcile.New(reconcile.Config[string]{
					Name: "test", Priority: tt.priority, Logger: quiet,
					Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
						_, name, err := reconcile.SplitKey(key)
						got = append(got, name)
						return reconcile.Result{}, err
					},
				})
				h := prioritize(c)
				for _, name := range []string{"first", "second", "third"} {
					h.OnAdd(versioned(name, "1"), true)
				}
				h.OnUpdate(versioned("resynced", "1"), versioned("resynced", "1"))
				h.OnAdd(versioned("new", "2"), false)
				h.OnUpdate(versioned("changed", "1"), versioned("changed", "2"))
				h.OnDelete(informer.DeletedObject[*corev1.Pod]{Key: "default/gone", OptionalObj: versioned("gone", "1")})
				h.OnUpdate(versioned("second", "1"), versioned("second", "2"))
				h.OnUpdate(nil, versioned("nil", "1"))
				h.OnAdd(nil, true)
				start(t, c)
				synctest.Wait()
				if !slices.Equal(got, tt.want) {
					t.Errorf("reconciled in the order %v, want %v", got, tt.want)
				}
			})
		})
	}
}

// TestPriorityIsKept checks that a key that failed, or asked for a time, keeps its priority (item
// 155).
func TestPriorityIsKept(t *testing.T) {
	for name, outcome := range map[string]func() (reconcile.Result, error){
		"error":         func() (reconcile.Result, error) { return reconcile.Result{}, errors.New("no luck") },
		"requeue after": func() (reconcile.Result, error) { return reconcile.Result{RequeueAfter: time.Second}, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var got []string
				again := true
				c := reconcile.New(reconcile.Config[string]{
					Name: "test", Priority: true, Logger: quiet,
					RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute),
					Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
						got = append(got, key)
						switch {
						case key == "busy":
							time.Sleep(5 * time.Second) // In the meantime the others fall due.
						case again:
							again = key != "low"
							return outcome()
						}
						return reconcile.Result{}, nil
					},
				})
				c.EnqueueWith("high", workqueue.AddOpts{Priority: 5})
				c.Enqueue("normal")
				c.EnqueueLow("low")
				start(t, c)
				synctest.Wait()
				c.Enqueue("busy")
				synctest.Wait()
				c.EnqueueWith("later", workqueue.AddOpts{Priority: 1})
				time.Sleep(time.Minute)
				synctest.Wait()
				if want := []string{"high", "normal", "low", "busy", "high", "later", "normal", "low"}; !slices.Equal(got, want) {
					t.Errorf("reconciled in the order %v, want %v", got, want)
				}
			})
		})
	}
}

// TestDepthByPriority checks that there is a depth for each priority (item 155).
func TestDepthByPriority(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := reconcile.New(reconcile.Config[string]{Name: "mine", Priority: true, Registerer: registry})
	c.Enqueue("a")
	c.EnqueueLow("b")
	c.EnqueueLow("c")
	c.Enqueue("c")
	c.EnqueueLow("a")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	depth := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "workqueue_depth" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := ""
			for _, label := range metric.GetLabel() {
				labels += label.GetName() + "=" + label.GetValue() + " "
			}
			depth[labels] = metric.GetGauge().GetValue()
		}
	}
	if len(depth) != 2 || depth["name=mine priority=0 "] != 2 || depth["name=mine priority=-100 "] != 1 {
		t.Errorf("the depth is %v", depth)
	}
}
