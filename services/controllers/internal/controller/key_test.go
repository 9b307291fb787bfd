package controller_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// TestOneWorkerForAnObject asks for an object before it exists, and again once it does: by two keys, since
// the first has no root.
func TestOneWorkerForAnObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queue controller.Queue
		var roots []string
		running := 0
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			return &controller.Spec{
				Name: "test-controller", Resource: "replicasets", Workers: 4, For: controller.For[*appsv1.ReplicaSet](d),
				Begin: func(q controller.Queue) { queue = q },
				Reconcile: func(_ context.Context, key controller.Key) (reconcile.Result, error) {
					if running++; running > 1 {
						t.Errorf("%d workers have %s", running, key)
					}
					roots = append(roots, string(key.Root))
					time.Sleep(time.Second)
					running--
					return reconcile.Result{}, nil
				},
			}
		})
		p.Start()
		synctest.Wait()
		queue.AddName("default", "web")
		time.Sleep(100 * time.Millisecond)
		p.Load(replicaSet("web", nil))
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if len(roots) != 2 || roots[0] != "" || roots[1] != "uid-web" {
			t.Errorf("got roots %q, want none and then the object's", roots)
		}
	})
}
