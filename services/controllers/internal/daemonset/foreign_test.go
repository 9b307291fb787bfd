package daemonset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/podtemplate"
)

// fail makes every pod fail as soon as it appears, and removes every pod that is being deleted.
func fail(ctx context.Context, p *controltest.Plane) error {
	pods := client.Of[*corev1.Pod](p.Client)
	w, err := pods.Watch(ctx, "", metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		switch {
		case !ok || e.Type == watch.Deleted:
		case pod.DeletionTimestamp != nil:
			_ = pods.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		case pod.Status.Phase == corev1.PodPending:
			pod.Status.Phase = corev1.PodFailed
			_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
	}
	return nil
}

// created counts the pods that were created.
func created(p *controltest.Plane) int {
	n := 0
	for _, call := range p.Writes() {
		if call.Verb == "create" && call.Kind.Resource == "pods" {
			n++
		}
	}
	return n
}

// TestTheStatusWaitsForThePods checks that the status is written once the new pods can be counted, and
// not before them as well.
func TestTheStatusWaitsForThePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a", "b", "c")
		p.Start()
		controltest.Create(p, set())
		expect(t, p, "at first", "a v1, b v1, c v1")
		if got, n := status(p), statuses(p); got.CurrentNumberScheduled != 3 || got.ObservedGeneration != 1 || n != 1 {
			t.Errorf("got status %+v after %d writes, want 3 pods after 1", got, n)
		}
	})
}

// statuses counts the writes of a DaemonSet's status.
func statuses(p *controltest.Plane) int {
	n := 0
	for _, call := range p.Writes() {
		if call.Kind.Resource == "daemonsets" && call.Subresource == "status" {
			n++
		}
	}
	return n
}

// TestNodes checks which nodes a pod fits.
func TestNodes(t *testing.T) {
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(node *corev1.Node) {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect})
		}
	}
	field := func(name string) func(*corev1.PodSpec) { return func(spec *corev1.PodSpec) { aimAt(spec, name) } }
	network := taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)
	for name, test := range map[string]struct {
		node      func(*corev1.Node)
		spec      func(*corev1.PodSpec)
		run, stay bool
	}{
		"any":                        {nil, nil, true, true},
		"its name":                   {nil, func(spec *corev1.PodSpec) { spec.NodeName = "n" }, true, true},
		"another name":               {nil, func(spec *corev1.PodSpec) { spec.NodeName = "m" }, false, false},
		"a selector":                 {nil, func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"name": "n"} }, true, true},
		"another selector":           {nil, func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{"name": "m"} }, false, false},
		"a field":                    {nil, field("n"), true, true},
		"another field":              {nil, field("m"), false, false},
		"prefers none":               {taint("x", corev1.TaintEffectPreferNoSchedule), nil, true, true},
		"schedules none":             {taint("x", corev1.TaintEffectNoSchedule), nil, false, true},
		"executes none":              {taint("x", corev1.TaintEffectNoExecute), nil, false, false},
		"not ready":                  {taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), nil, true, true},
		"not ready, schedules none":  {taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule), nil, false, true},
		"unreachable":                {taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute), nil, true, true},
		"cordoned":                   {taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule), nil, true, true},
		"full":                       {taint(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule), nil, true, true},
		"short of memory":            {taint(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule), nil, true, true},
		"short of processes":         {taint(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule), nil, true, true},
		"no network":                 {network, nil, false, true},
		"no network, and needs none": {network, func(spec *corev1.PodSpec) { spec.HostNetwork = true }, true, true},
		"tolerated": {taint("x", corev1.TaintEffectNoExecute), func(spec *corev1.PodSpec) {
			spec.Tolerations = []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}}
		}, true, true},
	} {
		n, ds := node("n"), set()
		if test.node != nil {
			test.node(n)
		}
		if test.spec != nil {
			test.spec(&ds.Spec.Template.Spec)
		}
		want := requirementsOf(ds)
		if run, stay := want.decide(n); run != test.run || stay != test.stay {
			t.Errorf("%s: got %v and %v, want %v and %v", name, run, stay, test.run, test.stay)
		}
	}
}

// TestTolerationsHaveNoEnd checks that a template's toleration for a time becomes one for ever.
func TestTolerationsHaveNoEnd(t *testing.T) {
	spec := corev1.PodSpec{Tolerations: []corev1.Toleration{
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(5))},
	}}
	got := tolerationsOf(&spec)
	if len(got) != 6 || got[0].TolerationSeconds != nil || spec.Tolerations[0].TolerationSeconds == nil {
		t.Errorf("got %v from %v", got, spec.Tolerations)
	}
}

// TestNodeOf checks where a pod belongs that has not been scheduled.
func TestNodeOf(t *testing.T) {
	pod := &corev1.Pod{}
	if node, ok := nodeOf(pod); ok {
		t.Errorf("a pod for no node is for %s", node)
	}
	aimAt(&pod.Spec, "n")
	if node, _ := nodeOf(pod); node != "n" {
		t.Errorf("a pod for n is for %q", node)
	}
	fields := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields
	fields[0].Values = []string{"n", "m"}
	if node, ok := nodeOf(pod); ok {
		t.Errorf("a pod for two nodes is for %s", node)
	}
	pod.Spec.NodeName = "m"
	if node, _ := nodeOf(pod); node != "m" {
		t.Errorf("a pod on m is for %q", node)
	}
}

// TestFailures checks the delays, their bound, and that old failures are forgotten.
func TestFailures(t *testing.T) {
	var f failures
	now := time.Unix(0, 0)
	key := failure{node: "a"}
	var delays []time.Duration
	for range 13 {
		if wait := f.delay(key, now); wait != 0 {
			t.Fatalf("a failed pod waits for another %s", wait)
		}
		wait := f.delay(key, now)
		delays = append(delays, wait)
		now = now.Add(wait)
	}
	if delays[0] != time.Second || delays[1] != 2*time.Second || delays[12] != 15*time.Minute || !slices.IsSorted(delays) {
		t.Errorf("got delays %v", delays)
	}
	for i := range 5000 {
		now = now.Add(time.Minute)
		f.delay(failure{node: fmt.Sprint(i)}, now)
	}
	if len(f.known) > 1100 {
		t.Errorf("%d failures are known", len(f.known))
	}
}

// TestCollision checks that a revision whose name is taken gets another, and that this is counted.
func TestCollision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a")
		ds := set()
		p.Load(&appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "log-" + podtemplate.Hash(&ds.Spec.Template, nil)},
			Data:       runtime.RawExtension{Raw: []byte(`{"spec":{}}`)},
		})
		p.Start()
		controltest.Create(p, ds)
		expect(t, p, "in the end", "a v1")
		if got := status(p); got.CollisionCount == nil || *got.CollisionCount != 1 {
			t.Errorf("got status %+v", got)
		}
	})
}

// TestRefusals covers DaemonSets that make no pods.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, "a")
		all := set()
		all.Name, all.Spec.Selector = "all", &metav1.LabelSelector{}
		deleted := set()
		deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.Now()), []string{"orphan"}
		p.Load(all, deleted)
		p.Start()
		expect(t, p, "in the end", "")
		if got := p.Events("SelectingAll"); len(got) != 1 || got[0] != "This daemon set is selecting all pods. A non-empty selector is required." {
			t.Errorf("got Events %q", got)
		}
	})
}

// TestAQuotaStopsCreations checks that few creations find out that none can succeed.
func TestAQuotaStopsCreations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []string
		for i := range 300 {
			nodes = append(nodes, fmt.Sprint("n", i))
		}
		p := plane(t, nodes...)
		var tried atomic.Int32
		p.Fail(func(call client.Call) error {
			if call.Verb == "create" && call.Kind.Resource == "pods" {
				tried.Add(1)
				return apierrors.NewForbidden(call.Kind.GroupResource(), "", errors.New("exceeded quota"))
			}
			return nil
		})
		p.Start()
		controltest.Create(p, set())
		time.Sleep(time.Hour)
		if n := tried.Load(); n < 5 || n > 100 {
			t.Errorf("%d creations were tried in an hour", n)
		}
		if got := status(p); got.DesiredNumberScheduled != 300 || got.CurrentNumberScheduled != 0 {
			t.Errorf("got status %+v", got)
		}
		p.Fail(nil)
		time.Sleep(time.Hour)
		if got := status(p); got.CurrentNumberScheduled != 300 {
			t.Errorf("with room, got status %+v", got)
		}
	})
}

// counting counts the writes of pods.
type counting struct {
	client.Interface
	created, deleted atomic.Int32
}

func (c *counting) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if call.Kind.Resource == "pods" {
		switch call.Verb {
		case "create":
			c.created.Add(1)
		case "delete":
			c.deleted.Add(1)
		}
	}
	return c.Interface.Do(ctx, call, into)
}

// TestActsOnceOnAStaleCache checks that each pod is created and deleted once, however late the informer of
// pods is.
func TestActsOnceOnAStaleCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Pod", 2*time.Second)
		for i := range 5 {
			p.Load(node(fmt.Sprint("n", i)))
		}
		counted := &counting{Interface: p.Client}
		p.Config.Client = controller.Client(counted)
		p.Declare(New)
		p.Start()
		controltest.Create(p, set())
		for i := range 20 {
			change(p, func(ds *appsv1.DaemonSet) { ds.Annotations["n"] = fmt.Sprint(i) })
			time.Sleep(500 * time.Millisecond)
		}
		change(p, func(ds *appsv1.DaemonSet) {
			ds.Spec.Template.Spec.NodeSelector = map[string]string{"name": "n0"}
			ds.Annotations[appsv1.DeprecatedTemplateGeneration] = "2"
		})
		for i := range 20 {
			change(p, func(ds *appsv1.DaemonSet) { ds.Annotations["n"] = fmt.Sprint("again", i) })
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		// The fifth is replaced because the template is another.
		if created, deleted := counted.created.Load(), counted.deleted.Load(); created != 6 || deleted != 5 {
			t.Errorf("got %d creations and %d deletions, want 6 and 5", created, deleted)
		}
	})
}
