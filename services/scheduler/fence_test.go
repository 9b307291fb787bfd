package scheduler

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

// noted carries a scheduler's calls, and records how it writes.
type noted struct {
	client.Interface
	mu     sync.Mutex
	fenced map[string]fence.Fence
	bare   map[string]bool
}

func (n *noted) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if call.Writes() {
		what := fmt.Sprintf("%s %s/%s", call.Verb, call.Kind.Resource, call.Subresource)
		n.mu.Lock()
		if f, ok := fence.From(ctx); ok {
			n.fenced[what] = f
		} else {
			n.bare[what] = true
		}
		n.mu.Unlock()
	}
	return n.Interface.Do(ctx, call, into)
}

// TestEveryWriteIsFenced checks that bindings and conditions carry the fence of the scheduler's own
// Lease, whatever its name; writes of the Lease itself and of Events carry none.
func TestEveryWriteIsFenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := fake.New(scheme.New(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("10"),
			}},
		})
		n := &noted{Interface: api, fenced: map[string]fence.Fence{}, bare: map[string]bool{}}
		cfg := config("one")
		cfg.SchedulerName = "mine"
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		s.shell.Use(n, listwatch.New(api, quiet()))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for name, cpu := range map[string]string{"fits": "500m", "large": "2"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
			pod.Spec.SchedulerName = "mine"
			pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}}
			if _, err := client.Of[*corev1.Pod](api).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for _, what := range []string{"create pods/binding", "patch pods/status"} {
			if f := n.fenced[what]; f.Namespace != "kube-system" || f.Name != "kube-scheduler-mine" || f.Holder != "one" {
				t.Errorf("%s: got fence %+v; fenced writes are %v", what, f, n.fenced)
			}
		}
		for what := range n.bare {
			switch what {
			case "create leases/", "update leases/", "create events/", "patch events/":
			default:
				t.Errorf("written without a fence: %s", what)
			}
		}
	})
}
