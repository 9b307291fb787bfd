package daemonset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// set returns a DaemonSet as the apiserver would complete it.
func set(change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	labels := map[string]string{"app": "log"}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "log", Labels: labels, Annotations: map[string]string{appsv1.DeprecatedTemplateGeneration: "1"},
		},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, RevisionHistoryLimit: new(int32(10)),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromInt32(1)), MaxSurge: new(intstr.FromInt32(0))},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
		},
	}
	for _, f := range change {
		f(ds)
	}
	return ds
}

func rolling(unavailable, surge int32) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(unavailable))
		ds.Spec.UpdateStrategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(surge))
	}
}

// holding keeps pods that are being deleted until gone is called.
func holding(ds *appsv1.DaemonSet) { ds.Spec.Template.Finalizers = []string{"example.com/hold"} }

func node(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}, Spec: corev1.NodeSpec{Taints: taints}}
}

// plane runs the controller, inside a bubble, on an API with nodes.
func plane(t *testing.T, nodes ...string) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch apps/daemonsets", "update apps/daemonsets/status", "list watch create delete patch /pods", "list watch /nodes",
		"get list watch create delete update patch apps/controllerrevisions", controltest.Events)
	for _, name := range nodes {
		p.Load(node(name))
	}
	p.Declare(New)
	return p
}

func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// pods returns the nodes and images of all pods, sorted: "a v1, b v2 ending".
func pods(p *controltest.Plane) string {
	var found []string
	for _, pod := range controltest.List[*corev1.Pod](p) {
		node, _ := nodeOf(pod)
		text := node + " " + pod.Spec.Containers[0].Image
		if pod.DeletionTimestamp != nil {
			text += " ending"
		}
		found = append(found, text)
	}
	slices.Sort(found)
	return strings.Join(found, ", ")
}

func expect(t *testing.T, p *controltest.Plane, when, want string) {
	t.Helper()
	settle()
	if got := pods(p); got != want {
		t.Fatalf("%s: got pods %q, want %q", when, got, want)
	}
}

// on calls f for the pods of a node.
func on(p *controltest.Plane, node, image string, f func(*corev1.Pod)) {
	for _, pod := range controltest.List[*corev1.Pod](p) {
		if at, _ := nodeOf(pod); at == node && pod.Spec.Containers[0].Image == image {
			f(pod)
		}
	}
}

func ready(p *controltest.Plane, node, image string, is bool) {
	on(p, node, image, func(pod *corev1.Pod) { controltest.MarkReady(p, pod.Namespace, pod.Name, is) })
}

func gone(p *controltest.Plane, node, image string) {
	on(p, node, image, func(pod *corev1.Pod) {
		if pod.DeletionTimestamp != nil {
			p.Remove(pod)
		}
	})
}

func change(p *controltest.Plane, f func(*appsv1.DaemonSet)) {
	controltest.Change(p, "default", "log", f)
}

func image(p *controltest.Plane, image string) {
	change(p, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = image
		ds.Annotations[appsv1.DeprecatedTemplateGeneration] = image
	})
}

func status(p *controltest.Plane) appsv1.DaemonSetStatus {
	return controltest.Get[*appsv1.DaemonSet](p, "default", "log").Status
}

// TestOnePodOnEachNode checks what the pods are, and that they follow the nodes.
func TestOnePodOnEachNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a", "b")
		p.Add(p.RunPods)
		p.Start()
		ds := controltest.Create(p, set())
		expect(t, p, "at first", "a v1, b v1")
		got := status(p)
		if got.DesiredNumberScheduled != 2 || got.CurrentNumberScheduled != 2 || got.NumberReady != 2 || got.NumberAvailable != 2 ||
			got.UpdatedNumberScheduled != 2 || got.NumberUnavailable != 0 || got.NumberMisscheduled != 0 || got.ObservedGeneration != 1 {
			t.Errorf("got status %+v", got)
		}
		revisions := controltest.List[*appsv1.ControllerRevision](p)
		if len(revisions) != 1 || revisions[0].Revision != 1 || revisions[0].Name != "log-"+revisions[0].Labels[hashLabel] || !metav1.IsControlledBy(revisions[0], ds) {
			t.Errorf("got revisions %+v", revisions)
		}
		on(p, "a", "v1", func(pod *corev1.Pod) {
			if !metav1.IsControlledBy(pod, ds) || !strings.HasPrefix(pod.Name, "log-") || pod.Labels[hashLabel] != revisions[0].Labels[hashLabel] ||
				pod.Labels["pod-template-generation"] != "1" || pod.Labels["app"] != "log" || len(pod.Spec.Tolerations) != 6 {
				t.Errorf("got pod %+v with tolerations %v", pod.ObjectMeta, pod.Spec.Tolerations)
			}
		})
		if got := p.Events("SuccessfulCreate"); len(got) != 2 || !strings.HasPrefix(got[0], "Created pod: log-") {
			t.Errorf("got Events %q", got)
		}
		p.Load(node("c"), node("d", corev1.Taint{Key: "mine", Effect: corev1.TaintEffectNoSchedule}))
		expect(t, p, "with two more nodes, one of them tainted", "a v1, b v1, c v1")
		controltest.Change(p, "", "d", func(node *corev1.Node) { node.Spec.Taints = nil })
		expect(t, p, "without the taint", "a v1, b v1, c v1, d v1")
		controltest.Change(p, "", "c", func(node *corev1.Node) {
			node.Spec.Taints = []corev1.Taint{{Key: "mine", Effect: corev1.TaintEffectNoSchedule}}
		})
		expect(t, p, "a pod that is there stays", "a v1, b v1, c v1, d v1")
		if got := status(p); got.NumberMisscheduled != 1 || got.DesiredNumberScheduled != 3 {
			t.Errorf("got status %+v", got)
		}
		controltest.Change(p, "", "c", func(node *corev1.Node) { node.Spec.Taints[0].Effect = corev1.TaintEffectNoExecute })
		expect(t, p, "until its node sends it away", "a v1, b v1, d v1")
		change(p, func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeSelector = map[string]string{"name": "a"} })
		settle()
		settle()
		expect(t, p, "with a selector", "a v1")
		if got := status(p); got.DesiredNumberScheduled != 1 || got.NumberMisscheduled != 0 || got.ObservedGeneration != 2 {
			t.Errorf("got status %+v", got)
		}
	})
}

// TestTooManyPods checks that of several pods on a node the oldest stays, and that pods for a node that is
// gone go.
func TestTooManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a")
		p.Start()
		controltest.Create(p, set())
		expect(t, p, "at first", "a v1")
		time.Sleep(time.Minute)
		for i, at := range []string{"a", "z"} {
			pod := controltest.List[*corev1.Pod](p)[0].DeepCopy()
			pod.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("more-", i), Labels: pod.Labels, OwnerReferences: pod.OwnerReferences}
			pod.Spec.Containers[0].Image = "more"
			aimAt(&pod.Spec, at)
			controltest.Create(p, pod)
		}
		expect(t, p, "in the end", "a v1")
		if got := p.Events("SuccessfulDelete"); len(got) != 2 || !slices.Contains(got, "Deleted pod: more-0") {
			t.Errorf("got Events %q", got)
		}
	})
}

// TestFailedPodsAreReplacedMoreAndMoreSlowly checks the back-off of pods that a node refuses.
func TestFailedPodsAreReplacedMoreAndMoreSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a")
		p.Add(func(ctx context.Context) error { return fail(ctx, p) })
		p.Start()
		controltest.Create(p, set())
		time.Sleep(time.Hour)
		events := p.Events("FailedDaemonPod")
		if n := created(p); n < 8 || n > 20 {
			t.Errorf("%d pods in an hour", n)
		}
		if len(events) == 0 || !strings.HasSuffix(events[0], "on node a, will try to kill it") || !strings.HasPrefix(events[0], "Found failed daemon pod default/log-") {
			t.Errorf("got Events %q", events)
		}
	})
}

// TestRollout checks that old pods go as fast as the strategy allows, and the history of revisions.
func TestRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a", "b", "c", "d")
		p.Start()
		controltest.Create(p, set(holding, rolling(2, 0)))
		settle()
		for _, node := range []string{"a", "b", "c"} {
			ready(p, node, "v1", true)
		}
		settle()
		image(p, "v2")
		expect(t, p, "one is unavailable, so it and one more go", "a v1 ending, b v1, c v1, d v1 ending")
		gone(p, "a", "v1")
		expect(t, p, "when one is gone, its successor comes", "a v2, b v1, c v1, d v1 ending")
		gone(p, "d", "v1")
		ready(p, "a", "v2", true)
		expect(t, p, "when one is available, the next goes", "a v2, b v1 ending, c v1, d v2")
		gone(p, "b", "v1")
		settle()
		ready(p, "b", "v2", true)
		ready(p, "d", "v2", true)
		settle()
		gone(p, "c", "v1")
		expect(t, p, "in the end", "a v2, b v2, c v2, d v2")
		ready(p, "c", "v2", true)
		settle()
		if got := status(p); got.UpdatedNumberScheduled != 4 || got.NumberAvailable != 4 {
			t.Errorf("got status %+v", got)
		}
	})
}

// TestSurge checks that a new pod comes before the old one goes.
func TestSurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a", "b", "c")
		p.Start()
		controltest.Create(p, set(holding, rolling(0, 1)))
		settle()
		ready(p, "a", "v1", true)
		ready(p, "b", "v1", true)
		settle()
		image(p, "v2")
		expect(t, p, "one beside one that serves, and one in place of one that does not", "a v1, a v2, b v1, c v1 ending, c v2")
		gone(p, "c", "v1")
		ready(p, "a", "v2", true)
		expect(t, p, "when it is available, the next comes", "a v1 ending, a v2, b v1, b v2, c v2")
		gone(p, "a", "v1")
		ready(p, "c", "v2", true)
		expect(t, p, "when the old one is gone", "a v2, b v1, b v2, c v2")
		ready(p, "b", "v2", true)
		settle()
		gone(p, "b", "v1")
		expect(t, p, "in the end", "a v2, b v2, c v2")
	})
}

// TestOnDelete checks that pods are replaced only when somebody deletes them.
func TestOnDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a", "b")
		p.Add(p.RunPods)
		p.Start()
		controltest.Create(p, set(func(ds *appsv1.DaemonSet) {
			ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
		}))
		settle()
		image(p, "v2")
		expect(t, p, "after the change", "a v1, b v1")
		if got := status(p); got.UpdatedNumberScheduled != 0 || got.CurrentNumberScheduled != 2 {
			t.Errorf("got status %+v", got)
		}
		on(p, "a", "v1", func(pod *corev1.Pod) { p.Remove(pod) })
		expect(t, p, "after a deletion", "a v2, b v1")
	})
}

// TestRevisions checks the limit, a rollback, the repair of labels and the merge of revisions that are the
// same.
func TestRevisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a")
		p.Add(p.RunPods)
		p.Start()
		controltest.Create(p, set(func(ds *appsv1.DaemonSet) { *ds.Spec.RevisionHistoryLimit = 2 }))
		settle()
		for i := range 4 {
			image(p, fmt.Sprint("v", i+2))
			settle()
		}
		numbers := func() string {
			var all []string
			for _, revision := range controltest.List[*appsv1.ControllerRevision](p) {
				all = append(all, fmt.Sprint(revision.Revision))
			}
			slices.Sort(all)
			return strings.Join(all, " ")
		}
		if got := numbers(); got != "3 4 5" {
			t.Errorf("the revisions %s are left", got)
		}
		image(p, "v4")
		expect(t, p, "rolled back", "a v4")
		if got := numbers(); got != "3 5 6" {
			t.Errorf("after a rollback there are the revisions %s", got)
		}
		for _, revision := range controltest.List[*appsv1.ControllerRevision](p) {
			if revision.Revision == 6 {
				twin := revision.DeepCopy()
				twin.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "log-twin", Labels: map[string]string{"app": "log"}}
				twin.Revision = 7
				controltest.Create(p, twin)
			}
		}
		settle()
		settle()
		expect(t, p, "with a twin", "a v4")
		if got := numbers(); got != "3 5 7" {
			t.Errorf("after a merge there are the revisions %s", got)
		}
		on(p, "a", "v4", func(pod *corev1.Pod) {
			if pod.Labels[hashLabel] != "log-twin" {
				t.Errorf("the pod is of the revision %s", pod.Labels[hashLabel])
			}
		})
	})
}

// TestMinReadySeconds checks that pods become available by time alone.
func TestMinReadySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a", "b")
		p.Add(p.RunPods)
		p.Start()
		controltest.Create(p, set(func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = 30 }))
		time.Sleep(25 * time.Second)
		if got := status(p); got.NumberReady != 2 || got.NumberAvailable != 0 || got.NumberUnavailable != 2 {
			t.Errorf("got status %+v", got)
		}
		time.Sleep(10 * time.Second)
		if got := status(p); got.NumberAvailable != 2 || got.NumberUnavailable != 0 {
			t.Errorf("got status %+v", got)
		}
	})
}
