package cycle_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/scheduler/internal/cycle"
)

// plane is an API in memory with a scheduler on it.
type plane struct {
	api   *fake.Client
	pods  client.Resource[*corev1.Pod]
	nodes client.Resource[*corev1.Node]
	trace *trace.Recorder
	// metrics is the scheduler's registry.
	metrics *prometheus.Registry
	// loop is the scheduler's Run, which stop ends.
	loop func(context.Context) error
	stop func()

	mu     sync.Mutex
	events []string
}

func (p *plane) Event(obj scheme.Object, eventType, reason, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, fmt.Sprintf("%s %s %s: ", eventType, reason, obj.GetName())+fmt.Sprintf(format, args...))
}

// start runs a scheduler; for use in a synctest bubble.
func start(t *testing.T, objs ...scheme.Object) *plane {
	t.Helper()
	table := scheme.New()
	p := &plane{api: fake.New(table, objs...), trace: trace.NewRecorder(100), metrics: prometheus.NewRegistry()}
	p.pods, p.nodes = client.Of[*corev1.Pod](p.api), client.Of[*corev1.Node](p.api)
	quiet := slog.New(slog.DiscardHandler)
	factory := informer.NewFactory(informer.FactoryConfig{Source: listwatch.New(p.api, quiet), Table: table, Logger: quiet})
	loop := cycle.New(cycle.Config{
		Client: p.api, Informers: factory, SchedulerName: corev1.DefaultSchedulerName, Events: p,
		Logger: quiet, Registerer: p.metrics, Trace: p.trace,
	})
	background(t, factory.Run)
	p.loop = loop.Run
	p.stop = background(t, loop.Run)
	return p
}

// background runs a function until the test ends, or until the returned function is called.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func node(name, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

func pod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func (p *plane) create(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if _, err := p.pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *plane) get(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod, err := p.pods.Get(t.Context(), "default", name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// on fails the test unless a pod is on the given node.
func (p *plane) on(t *testing.T, name, node string) {
	t.Helper()
	if got := p.get(t, name).Spec.NodeName; got != node {
		t.Errorf("%s: got node %q, want %q", name, got, node)
	}
}

func (p *plane) saw(t *testing.T, event string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.events, event) {
		t.Errorf("got no event %q in %q", event, p.events)
	}
}

func scheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodScheduled {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func settle() { time.Sleep(time.Second) }

func TestPodIsBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "4"), pod("early", "1"))
		settle()
		p.create(t, pod("late", "1"))
		settle()
		for _, name := range []string{"early", "late"} {
			p.on(t, name, "a")
			p.saw(t, fmt.Sprintf("Normal Scheduled %s: Successfully assigned default/%s to a", name, name))
		}
		hops := p.trace.Hops(func(h trace.Hop) bool { return h.Step == trace.Bind })
		if len(hops) != 2 || hops[0].Name != "early" || hops[0].Detail != "a" || hops[0].UID == "" {
			t.Errorf("got hops %+v", hops)
		}
	})
}

// TestOtherPodsAreLeftAlone checks that the scheduler ignores pods of other schedulers, and pods
// that are gated, deleted or ended.
func TestOtherPodsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other, gated, ended := pod("other", "1"), pod("gated", "1"), pod("ended", "1")
		other.Spec.SchedulerName = "somebody-else"
		gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}}
		ended.Status.Phase = corev1.PodFailed
		p := start(t, node("a", "4"), other, gated, ended)
		settle()
		for _, name := range []string{"other", "gated", "ended"} {
			p.on(t, name, "")
		}
		open := p.get(t, "gated")
		open.Spec.SchedulingGates = nil
		p.api.Load(open)
		settle()
		p.on(t, "gated", "a")
	})
}

func TestUnschedulablePodSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.create(t, pod("p", "2"))
		settle()
		const none = "no nodes available to schedule pods"
		p.saw(t, "Warning FailedScheduling p: "+none)
		condition := scheduled(p.get(t, "p"))
		if condition == nil || condition.Status != corev1.ConditionFalse || condition.Reason != "Unschedulable" || condition.Message != none {
			t.Fatalf("got condition %+v", condition)
		}
		since := condition.LastTransitionTime

		p.api.Load(node("small", "1"))
		time.Sleep(2 * time.Second)
		const small = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
		p.saw(t, "Warning FailedScheduling p: "+small)
		if condition = scheduled(p.get(t, "p")); condition.Message != small || !condition.LastTransitionTime.Equal(&since) {
			t.Errorf("got condition %+v", condition)
		}

		p.api.Load(node("large", "4"))
		time.Sleep(5 * time.Second)
		p.on(t, "p", "large")
	})
}

// TestRoomIsUsedAgain checks that the room of a deleted or ended pod is used again.
func TestRoomIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "3"))
		p.create(t, pod("one", "3"))
		settle()
		p.create(t, pod("two", "3"), pod("three", "3"))
		settle()
		if err := p.pods.Delete(t.Context(), "default", "one", *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		p.on(t, "two", "a")
		p.on(t, "three", "")
		two := p.get(t, "two")
		two.Status.Phase = corev1.PodSucceeded
		if _, err := p.pods.UpdateStatus(t.Context(), two, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		p.on(t, "three", "a")
	})
}

// TestPodIsBoundAgainAfterARestore removes a pod from its node, as a restore of etcd to a time
// before the binding does. The pod is bound again, and its room is not counted twice.
func TestPodIsBoundAgainAfterARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("n1", "1"))
		p.create(t, pod("a", "600m"))
		settle()
		p.on(t, "a", "n1")
		restored := p.get(t, "a")
		restored.Spec.NodeName = ""
		if _, err := p.pods.Update(t.Context(), restored, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		p.on(t, "a", "n1")
		p.create(t, pod("b", "400m"))
		settle()
		p.on(t, "b", "n1")
	})
}

// TestNodesAreNotOverfull checks that many pods at once never take more than there is, although
// they are bound in the background.
func TestNodesAreNotOverfull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "5"), node("b", "5"), node("c", "5"))
		p.api.Fail(func(call client.Call) error {
			if call.Subresource == "binding" {
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		})
		for i := range 20 {
			p.create(t, pod(fmt.Sprint("p", i), "1"))
		}
		time.Sleep(10 * time.Second)
		perNode := map[string]int{}
		for i := range 20 {
			perNode[p.get(t, fmt.Sprint("p", i)).Spec.NodeName]++
		}
		if perNode["a"] != 5 || perNode["b"] != 5 || perNode["c"] != 5 || perNode[""] != 5 {
			t.Errorf("got pods per node: %v", perNode)
		}
	})
}

// TestBindingFails checks that a failed binding returns the room, is reported, and is retried.
func TestBindingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "1"))
		var mu sync.Mutex
		failures := 2
		p.api.Fail(func(call client.Call) error {
			mu.Lock()
			defer mu.Unlock()
			if call.Subresource == "binding" && failures > 0 {
				failures--
				return errors.New("the apiserver is tired")
			}
			return nil
		})
		p.create(t, pod("p", "1"))
		time.Sleep(500 * time.Millisecond)
		if condition := scheduled(p.get(t, "p")); condition == nil || condition.Reason != "SchedulerError" || !strings.Contains(condition.Message, "binding rejected") {
			t.Errorf("got condition %+v", condition)
		}
		time.Sleep(4 * time.Second)
		p.on(t, "p", "a")
	})
}

// TestNodeBecomesReady checks that a node that becomes ready gets the waiting pods.
func TestNodeBecomesReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := node("a", "4")
		away.UID = "node-a"
		away.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
		p := start(t, away)
		p.create(t, pod("p", "1"))
		time.Sleep(20 * time.Second)
		p.on(t, "p", "")
		ready := away.DeepCopy()
		ready.Status.Conditions[0].Status = corev1.ConditionTrue
		p.api.Load(ready)
		settle()
		p.on(t, "p", "a")
	})
}

// TestCordon checks that an uncordoned node gets the waiting pods.
func TestCordon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cordoned := node("a", "4")
		cordoned.UID = "node-a"
		cordoned.Spec.Unschedulable = true
		p := start(t, cordoned)
		p.create(t, pod("p", "1"))
		settle()
		p.saw(t, "Warning FailedScheduling p: 0/1 nodes are available: 1 node(s) were unschedulable. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.")
		open := cordoned.DeepCopy()
		open.Spec.Unschedulable = false
		p.api.Load(open)
		time.Sleep(2 * time.Second)
		p.on(t, "p", "a")
	})
}

// TestHeartbeatsCauseNoRetry checks that a node's heartbeat causes no retry.
func TestHeartbeatsCauseNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "1"))
		p.create(t, pod("p", "4"))
		time.Sleep(30 * time.Second)
		p.mu.Lock()
		before := len(p.events)
		p.mu.Unlock()
		for i := range 10 {
			beat, err := p.nodes.Get(t.Context(), "", "a", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(time.Now()), Message: fmt.Sprint(i)}}
			p.api.Load(beat)
			settle()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.events) != before {
			t.Errorf("heartbeats caused events: %q", p.events[before:])
		}
	})
}

// TestLeadsAgain checks that a replica that loses the lead and regains it starts from the present
// state, including what another replica did in between.
func TestLeadsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("a", "2"))
		p.create(t, pod("one", "1"), pod("big", "9"))
		settle()
		p.on(t, "one", "a")
		p.stop()
		p.create(t, pod("two", "1"))
		other := pod("elsewhere", "1")
		other.Spec.NodeName = "a"
		p.api.Load(other)
		settle()
		p.on(t, "two", "")
		background(t, p.loop)
		settle()
		p.on(t, "two", "") // The room is taken.
		p.api.Remove(other)
		time.Sleep(10 * time.Second)
		p.on(t, "two", "a")
		p.on(t, "big", "")
	})
}
