package nodelifecycle

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
	"github.com/garboard/garboard/services/controllers/internal/tainteviction"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func node(name string, conditions ...corev1.NodeCondition) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Now()},
		Status:     corev1.NodeStatus{Conditions: conditions},
	}
}

func is(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
	return corev1.NodeCondition{Type: kind, Status: status, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}
}

func ready() corev1.NodeCondition { return is(corev1.NodeReady, corev1.ConditionTrue) }

func podOn(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Tolerations: tolerations, TerminationGracePeriodSeconds: new(int64)},
	}
	controltest.SetReady(pod, true)
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ImageID: "sha256:1"}}
	return pod
}

// tolerance returns the pair of tolerations that admission adds to every pod.
func tolerance(seconds int64) []corev1.Toleration {
	return []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds},
	}
}

func start(t *testing.T) *controltest.Plane {
	t.Helper()
	return startWith(t, DefaultOptions())
}

func startWith(t *testing.T, options Options) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch update delete patch /nodes", "patch update /nodes/status", "patch update /pods/status", "get list watch delete /pods", controltest.Events)
	p.Declare(func(d controller.Deps) *controller.Spec { return New(d, options) })
	p.Declare(tainteviction.New)
	p.Start()
	return p
}

// renew sends a node's heartbeat, through its Lease, every ten seconds for the given time.
func renew(p *controltest.Plane, node string, seconds int) {
	for range seconds / 10 {
		now := metav1.NowMicro()
		p.Load(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node},
			Spec:       coordinationv1.LeaseSpec{RenewTime: &now},
		})
		time.Sleep(10 * time.Second)
	}
}

func taints(p *controltest.Plane, name string) []string {
	var found []string
	for _, taint := range controltest.Get[*corev1.Node](p, "", name).Spec.Taints {
		found = append(found, taint.Key+":"+string(taint.Effect))
	}
	return found
}

func wantTaints(t *testing.T, p *controltest.Plane, name string, want ...string) {
	t.Helper()
	if got := taints(p, name); !slices.Equal(got, want) {
		t.Errorf("taints of %s: got %v, want %v", name, got, want)
	}
}

const (
	notReadySchedule    = "node.kubernetes.io/not-ready:NoSchedule"
	unreachableSchedule = "node.kubernetes.io/unreachable:NoSchedule"
	unreachableExecute  = "node.kubernetes.io/unreachable:NoExecute"
	notReadyExecute     = "node.kubernetes.io/not-ready:NoExecute"
)

func TestANewNodeLosesItsTaintWhenItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		n := node("a")
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
		p.Load(n)
		time.Sleep(time.Second)
		wantTaints(t, p, "a", notReadySchedule)
		controltest.SetStatus(p, "", "a", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{is(corev1.NodeReady, corev1.ConditionFalse)}
		})
		time.Sleep(time.Second)
		wantTaints(t, p, "a", notReadySchedule)
		controltest.SetStatus(p, "", "a", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{ready()} })
		time.Sleep(time.Second)
		wantTaints(t, p, "a")
		if events := p.Events("RegisteredNode"); len(events) != 1 || events[0] != "Node a event: Registered Node a in Controller" {
			t.Errorf("got events %q", events)
		}
	})
}

func TestTaintsByConditionLeaveOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		n := node("a", ready(), is(corev1.NodeMemoryPressure, corev1.ConditionTrue), is(corev1.NodeDiskPressure, corev1.ConditionFalse))
		n.Spec.Unschedulable = true
		n.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
		p.Load(n)
		time.Sleep(time.Second)
		wantTaints(t, p, "a", "mine:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule", "node.kubernetes.io/memory-pressure:NoSchedule")
		for _, taint := range controltest.Get[*corev1.Node](p, "", "a").Spec.Taints {
			if (taint.TimeAdded == nil) != (taint.Key == "mine") {
				t.Errorf("the taint %s was added at %v", taint.Key, taint.TimeAdded)
			}
		}
		controltest.Change(p, "", "a", func(n *corev1.Node) { n.Spec.Unschedulable = false })
		controltest.SetStatus(p, "", "a", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{ready(), is(corev1.NodePIDPressure, corev1.ConditionTrue)}
		})
		time.Sleep(time.Second)
		wantTaints(t, p, "a", "mine:NoSchedule", "node.kubernetes.io/pid-pressure:NoSchedule")
	})
}

func TestALeaseKeepsANodeAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(node("a", ready()))
		renew(p, "a", 600)
		if c := condition(controltest.Get[*corev1.Node](p, "", "a"), corev1.NodeReady); c.Status != corev1.ConditionTrue {
			t.Errorf("got condition Ready %+v", c)
		}
	})
}

func TestASilentNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(node("a", ready(), is(corev1.NodeMemoryPressure, corev1.ConditionFalse)), node("b", ready()))
		p.Load(podOn("patient", "a", tolerance(300)...), podOn("loyal", "a", corev1.Toleration{Operator: corev1.TolerationOpExists}),
			podOn("hasty", "a"), podOn("elsewhere", "b"))
		renew(p, "a", 20)
		go renew(p, "b", 1000)
		time.Sleep(35 * time.Second)
		wantTaints(t, p, "a")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		a := controltest.Get[*corev1.Node](p, "", "a")
		for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure} {
			if c := condition(a, kind); c.Status != corev1.ConditionUnknown || c.Reason != "NodeStatusUnknown" || c.Message != "Kubelet stopped posting node status." {
				t.Errorf("%s: %+v", kind, c)
			}
		}
		if c := condition(a, corev1.NodeDiskPressure); c == nil || c.Reason != "NodeStatusNeverUpdated" || c.Message != "Kubelet never posted node status." {
			t.Errorf("disk pressure: got %+v", c)
		}
		wantTaints(t, p, "a", unreachableSchedule, unreachableExecute)
		wantTaints(t, p, "b")
		patient := controltest.Get[*corev1.Pod](p, "default", "patient")
		if podstate.Ready(patient) || patient.Status.ContainerStatuses[0].ImageID != "sha256:1" {
			t.Errorf("a pod of the silent node is ready, or has lost what the cache does not keep: %+v", patient.Status)
		}
		if !podstate.Ready(controltest.Get[*corev1.Pod](p, "default", "elsewhere")) {
			t.Error("a pod of the other node is not ready")
		}
		left := func() (names []string) {
			for _, pod := range controltest.List[*corev1.Pod](p) {
				names = append(names, pod.Name)
			}
			return names
		}
		if got := left(); !slices.Equal(got, []string{"elsewhere", "loyal", "patient"}) {
			t.Errorf("got pods %v", got)
		}
		if events := p.Events("TaintManagerEviction"); len(events) != 1 || events[0] != "Marking for deletion Pod default/hasty" {
			t.Errorf("got events %q", events)
		}
		if events := p.Events("NodeNotReady"); !slices.Contains(events, "Node a status is now: NodeNotReady") || !slices.Contains(events, "Node is not ready") {
			t.Errorf("got events %q", events)
		}
		time.Sleep(280 * time.Second)
		if got := left(); len(got) != 3 {
			t.Errorf("got pods %v before the toleration ends", got)
		}
		time.Sleep(30 * time.Second)
		if got := left(); !slices.Equal(got, []string{"elsewhere", "loyal"}) {
			t.Errorf("got pods %v after the toleration has ended", got)
		}
		// The node comes back.
		controltest.SetStatus(p, "", "a", func(n *corev1.Node) { n.Status.Conditions = []corev1.NodeCondition{ready()} })
		time.Sleep(time.Second)
		wantTaints(t, p, "a")
		time.Sleep(time.Hour) // Let b's heartbeats end.
	})
}

func TestTheLastNodesPodsStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		p.Load(node("a", ready()), podOn("p", "a", tolerance(10)...))
		time.Sleep(10 * time.Minute)
		wantTaints(t, p, "a", unreachableSchedule)
		controltest.Get[*corev1.Pod](p, "default", "p")
	})
}

func TestNodesAreGivenUpOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t)
		for i := range 6 {
			p.Load(node(fmt.Sprint("n", i), ready()))
		}
		for i := range 3 {
			controltest.SetStatus(p, "", fmt.Sprint("n", i), func(n *corev1.Node) {
				n.Status.Conditions = []corev1.NodeCondition{is(corev1.NodeReady, corev1.ConditionFalse)}
			})
		}
		given := func() (count int) {
			for i := range 3 {
				if slices.Contains(taints(p, fmt.Sprint("n", i)), notReadyExecute) {
					count++
				}
			}
			return count
		}
		time.Sleep(2 * time.Second)
		if n := given(); n != 1 {
			t.Errorf("got %d nodes given up at once", n)
		}
		time.Sleep(23 * time.Second)
		if n := given(); n != 3 {
			t.Errorf("got %d nodes given up after 25 s", n)
		}
	})
}

func TestZoneStates(t *testing.T) {
	for _, test := range []struct {
		ready, lost int
		want        zoneState
	}{
		{1, 0, zoneNormal}, {0, 1, zoneFull}, {0, 5, zoneFull}, {1, 2, zoneNormal}, {2, 3, zonePartial}, {3, 3, zoneNormal}, {45, 55, zonePartial},
	} {
		if got := DefaultOptions().stateOf(test.ready, test.lost); got != test.want {
			t.Errorf("%d ready, %d lost: got %v", test.ready, test.lost, got)
		}
	}
	z := newZones(DefaultOptions())
	zone := func(name, zone string) *corev1.Node {
		n := node(name)
		n.Labels = map[string]string{corev1.LabelTopologyZone: zone}
		return n
	}
	z.set(zone("a", "1"), true)
	if z.allDown() {
		t.Error("all zones count as down despite a ready node")
	}
	if z.set(zone("b", "2"), false); z.allDown() {
		t.Error("all zones count as down though one is not")
	}
	if !z.set(zone("a", "1"), false) || !z.allDown() {
		t.Error("the zones do not count as down though all are")
	}
	if !z.remove("b") && !z.allDown() {
		t.Error("the remaining zones still count as down")
	}
}

// TestMergeIsStable checks that, whatever taints a node has, the managed ones become exactly those
// wanted, the others stay in their order, and merging twice changes nothing.
func TestMergeIsStable(t *testing.T) {
	keys := []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeUnschedulable, "mine", "yours"}
	effects := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, corev1.TaintEffectPreferNoSchedule}
	draw := func(t *rapid.T, label string, only func(corev1.Taint) bool) []corev1.Taint {
		var taints []corev1.Taint
		for range rapid.IntRange(0, 6).Draw(t, label) {
			taint := corev1.Taint{Key: rapid.SampledFrom(keys).Draw(t, "key"), Effect: rapid.SampledFrom(effects).Draw(t, "effect")}
			if only(taint) && !has(taints, taint) {
				taints = append(taints, taint)
			}
		}
		return taints
	}
	rapid.Check(t, func(t *rapid.T) {
		current := draw(t, "current", func(corev1.Taint) bool { return true })
		ours := draw(t, "ours", managed)
		merged, changed := merge(current, ours)
		if again, twice := merge(merged, ours); twice || !sameTaints(again, merged) {
			t.Fatalf("the second merge changed the taints to %v", again)
		}
		if !changed && !sameTaints(merged, current) {
			t.Fatalf("changed from %v to %v without reporting it", current, merged)
		}
		foreign := func(taints []corev1.Taint) []corev1.Taint {
			return slices.DeleteFunc(slices.Clone(taints), managed)
		}
		if !sameTaints(foreign(merged), foreign(current)) {
			t.Fatalf("got foreign taints %v, want %v", foreign(merged), foreign(current))
		}
		if len(merged)-len(foreign(merged)) != len(ours) {
			t.Fatalf("got managed taints in %v, want %v", merged, ours)
		}
	})
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool {
		return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect && x.TimeAdded.Equal(y.TimeAdded)
	})
}
