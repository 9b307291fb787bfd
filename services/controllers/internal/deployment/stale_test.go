package deployment_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/deployment"
)

// counting counts the writes that failed because the writer's state was stale.
type counting struct {
	client.Interface
	conflicts atomic.Int32
}

func (c *counting) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	err := c.Interface.Do(ctx, call, into)
	if apierrors.IsConflict(err) {
		c.conflicts.Add(1)
	}
	return err
}

// TestTheControllerReadsItsOwnWrites checks that a Deployment that only its controller writes never
// has a conflict, however late the informer is. No reconcile acts on a cache older than the
// previous reconcile's last write. A client that does not record shows that the test can fail.
func TestTheControllerReadsItsOwnWrites(t *testing.T) {
	for name, recording := range map[string]bool{"recorded": true, "not recorded": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := controltest.NewLate(t, "Deployment", 2*time.Second)
				counted := &counting{Interface: p.Client}
				p.Config.Client = counted
				if recording {
					p.Config.Client = controller.Client(counted)
				}
				p.Declare(deployment.New)
				p.Start()
				controltest.Create(p, web(5))
				time.Sleep(time.Minute)
				counted.conflicts.Store(0)
				for ready := range int32(5) {
					controltest.SetStatus(p, "default", sets(p)["web:1"].Name, func(rs *appsv1.ReplicaSet) {
						rs.Status.Replicas, rs.Status.ReadyReplicas, rs.Status.AvailableReplicas = ready+1, ready+1, ready+1
						rs.Status.ObservedGeneration = rs.Generation
					})
					time.Sleep(200 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				if got := counted.conflicts.Load(); (got == 0) != recording {
					t.Errorf("got %d conflicts, recording %v", got, recording)
				}
				if got := get(p).Status.AvailableReplicas; got != 5 {
					t.Errorf("got %d available replicas in the end, want 5", got)
				}
			})
		})
	}
}
