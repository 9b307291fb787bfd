package replicaset

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// counting counts the writes of pods, each of which takes a while.
type counting struct {
	client.Interface
	takes              time.Duration
	created, deletions atomic.Int32
}

func (c *counting) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if call.Kind.Resource == "pods" {
		select {
		case <-time.After(c.takes):
		case <-ctx.Done():
		}
		switch call.Verb {
		case "create":
			c.created.Add(1)
		case "delete":
			c.deletions.Add(1)
		}
	}
	return c.Interface.Do(ctx, call, into)
}

// TestActsOnceOnAStaleCache checks that each pod is created and deleted once, however late the pod
// informer is.
func TestActsOnceOnAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Pod", 2*time.Second)
		counted := &counting{Interface: p.Client}
		p.Config.Client = controller.Client(counted)
		p.Declare(New)
		p.Start()
		controltest.Create(p, set("web", 5))
		reconcileOften(p, 5)
		time.Sleep(time.Minute)
		reconcileOften(p, 2)
		time.Sleep(time.Minute)
		if created, deletions := counted.created.Load(), counted.deletions.Load(); created != 5 || deletions != 3 {
			t.Errorf("got %d creations and %d deletions, want 5 and 3", created, deletions)
		}
		if n := len(controltest.List[*corev1.Pod](p)); n != 2 {
			t.Errorf("got %d pods, want 2", n)
		}
	})
}

// TestActsOnceForASetOfTheSameName checks that each pod of a ReplicaSet is created once though another set
// of its name was deleted just before: the keys of both are in the queue, and the cache of pods is late.
func TestActsOnceForASetOfTheSameName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Pod", 2*time.Second)
		counted := &counting{Interface: p.Client, takes: 50 * time.Millisecond}
		p.Config.Client = controller.Client(counted)
		p.Declare(New)
		p.Start()
		controltest.Create(p, set("web", 3))
		time.Sleep(time.Minute)
		// After this reconcile the key of the first set rests, and is then with a worker once more.
		controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = new(int32(4)) })
		time.Sleep(60 * time.Millisecond)
		if err := client.Of[*appsv1.ReplicaSet](p.Client).Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		controltest.Create(p, set("web", 5))
		time.Sleep(time.Minute)
		if created := counted.created.Load(); created != 4+5 {
			t.Errorf("got %d creations, want 4 for the first set and 5 for the second", created)
		}
	})
}

// reconcileOften changes the ReplicaSet until the pod informer has caught up.
func reconcileOften(p *controltest.Plane, replicas int32) {
	for i := range 20 {
		controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) {
			rs.Spec.Replicas = &replicas
			rs.Annotations = map[string]string{"n": fmt.Sprint(i)}
		})
		time.Sleep(500 * time.Millisecond)
	}
}
