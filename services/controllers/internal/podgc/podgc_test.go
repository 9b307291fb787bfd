package podgc

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(name string, ready corev1.ConditionStatus, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	return n
}

func pod(name, node string, phase corev1.PodPhase) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.Now()},
		Spec:       corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase},
	}
}

// ending returns a pod that is being deleted, held by its grace period and perhaps a finalizer.
func ending(p *corev1.Pod, finalizers ...string) *corev1.Pod {
	grace := int64(3600)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.Finalizers = &metav1.Time{Time: time.Now().Add(time.Hour)}, &grace, finalizers
	return p
}

// plane runs the controller, inside a bubble.
func plane(t *testing.T, threshold int) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("list watch delete /pods", "get list watch /nodes", "patch /pods/status")
	p.Declare(func(d controller.Deps) *controller.Spec { return declare(d, threshold) })
	p.Start()
	return p
}

func names(p *controltest.Plane) []string {
	var names []string
	for _, pod := range controltest.List[*corev1.Pod](p) {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

func TestPodsOfANodeThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, threshold)
		p.Load(node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue))
		p.Load(pod("p", "a", corev1.PodRunning), pod("stays", "b", corev1.PodRunning), pod("done", "a", corev1.PodSucceeded))
		p.Load(ending(pod("held", "a", corev1.PodRunning), "example.com/hold"))
		time.Sleep(time.Second)
		p.Remove(node("a", ""))
		time.Sleep(30 * time.Second)
		if got := names(p); len(got) != 4 { // The node may come back.
			t.Errorf("after 30 s: %v", got)
		}
		time.Sleep(30 * time.Second)
		if got := names(p); !slices.Equal(got, []string{"held", "stays"}) {
			t.Fatalf("got pods %v", got)
		}
		held := controltest.Get[*corev1.Pod](p, "default", "held")
		c := podstate.Condition(held, corev1.DisruptionTarget)
		if held.Status.Phase != corev1.PodFailed || c == nil || c.Status != corev1.ConditionTrue || c.Reason != "DeletionByPodGC" ||
			c.Message != "PodGC: node no longer exists" || c.LastTransitionTime.IsZero() {
			t.Errorf("the pod held by its finalizer: got %s %+v", held.Status.Phase, c)
		}
	})
}

func TestANodeThatComesBackKeepsItsPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, threshold)
		p.Load(node("a", corev1.ConditionTrue), pod("p", "a", corev1.PodRunning))
		time.Sleep(time.Second)
		p.Remove(node("a", ""))
		time.Sleep(30 * time.Second)
		p.Load(node("a", corev1.ConditionTrue))
		time.Sleep(5 * time.Second)
		p.Remove(node("a", "")) // The time begins anew.
		time.Sleep(30 * time.Second)
		p.Load(node("a", corev1.ConditionTrue))
		time.Sleep(time.Hour)
		if got := names(p); len(got) != 1 {
			t.Errorf("got pods %v", got)
		}
	})
}

func TestOutOfService(t *testing.T) {
	const taint = corev1.TaintNodeOutOfService
	for name, test := range map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		left bool
	}{
		"ends there":       {node("a", corev1.ConditionUnknown, taint), ending(pod("p", "a", corev1.PodRunning)), false},
		"of a ready node":  {node("a", corev1.ConditionTrue, taint), ending(pod("p", "a", corev1.PodRunning)), true},
		"another taint":    {node("a", corev1.ConditionFalse, "example.com/x"), ending(pod("p", "a", corev1.PodRunning)), true},
		"is to go on":      {node("a", corev1.ConditionFalse, taint), pod("p", "a", corev1.PodRunning), true},
		"never had a node": {node("a", corev1.ConditionTrue), ending(pod("p", "", corev1.PodPending)), false},
		"waits for a node": {node("a", corev1.ConditionTrue), pod("p", "", corev1.PodPending), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t, threshold)
				p.Load(test.node, test.pod)
				time.Sleep(time.Minute)
				if got := names(p); len(got) == 1 != test.left {
					t.Errorf("got pods %v", got)
				}
			})
		})
	}
}

// TestATaintThatComesLater checks that pods that were to end before the node had the taint go too.
func TestATaintThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, threshold)
		p.Load(node("a", corev1.ConditionFalse), ending(pod("p", "a", corev1.PodRunning)))
		time.Sleep(time.Minute)
		if got := names(p); len(got) != 1 {
			t.Fatalf("got pods %v", got)
		}
		controltest.Change(p, "", "a", func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		})
		time.Sleep(time.Second)
		if got := names(p); len(got) != 0 {
			t.Errorf("got pods %v", got)
		}
	})
}

func TestTooManyThatHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, 3)
		p.Load(node("a", corev1.ConditionTrue), pod("running", "a", corev1.PodRunning))
		for i := range 5 {
			p.Load(pod(fmt.Sprintf("done-%d", i), "a", corev1.PodSucceeded))
			time.Sleep(time.Second)
		}
		evicted := pod("evicted", "a", corev1.PodFailed)
		evicted.Status.Reason = "Evicted"
		p.Load(evicted)
		time.Sleep(time.Minute)
		if got := names(p); !slices.Equal(got, []string{"done-2", "done-3", "done-4", "running"}) {
			t.Errorf("got pods %v", got)
		}
	})
}
