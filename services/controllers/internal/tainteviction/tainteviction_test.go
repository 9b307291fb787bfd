package tainteviction

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// node returns a node with NoExecute taints of some keys.
func node(name string, keys ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "node"}}
	n.Spec.Taints = taints(keys...)
	return n
}

func taints(keys ...string) (found []corev1.Taint) {
	for _, key := range keys {
		found = append(found, corev1.Taint{Key: key, Value: "v", Effect: corev1.TaintEffectNoExecute})
	}
	return found
}

// pod returns a pod on a node, which may be empty.
func pod(name, node string, tolerations ...corev1.Toleration) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 3}}
	p.Spec.NodeName, p.Spec.Tolerations, p.Spec.TerminationGracePeriodSeconds = node, tolerations, new(int64)
	return p
}

// tolerates returns the toleration of a key for some seconds, or for ever if they are negative.
func tolerates(key string, seconds int64) corev1.Toleration {
	toleration := corev1.Toleration{Key: key, Value: "v", Effect: corev1.TaintEffectNoExecute}
	if seconds >= 0 {
		toleration.TolerationSeconds = &seconds
	}
	return toleration
}

func run(t *testing.T, registry *prometheus.Registry) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	if registry != nil {
		p.Config.Registerer = registry
	}
	p.Allow("get list watch update delete patch /nodes", "patch update /pods/status", "get list watch delete /pods", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

// left returns the names of the pods that exist.
func left(p *controltest.Plane) (names []string) {
	for _, pod := range controltest.List[*corev1.Pod](p) {
		names = append(names, pod.Name)
	}
	return names
}

func wantLeft(t *testing.T, p *controltest.Plane, when string, want ...string) {
	t.Helper()
	if got := left(p); !slices.Equal(got, want) {
		t.Errorf("%s there are the pods %q, want %q", when, got, want)
	}
}

func wantEvents(t *testing.T, p *controltest.Plane, want ...string) {
	t.Helper()
	settle()
	if got := p.Events(reason); !slices.Equal(got, want) {
		t.Errorf("Events %q, want %q", got, want)
	}
}

const (
	marking    = "Marking for deletion Pod default/p"
	cancelling = "Cancelling deletion of Pod default/p"
)

// TestAPodOnATaintedNode checks what becomes of a pod that comes to a node.
func TestAPodOnATaintedNode(t *testing.T) {
	for name, tt := range map[string]struct {
		keys  []string
		pod   *corev1.Pod
		stays bool
	}{
		"it is not scheduled":        {[]string{"a"}, pod("p", ""), true},
		"the node has no taints":     {nil, pod("p", "n"), true},
		"of an unknown node":         {[]string{"a"}, pod("p", "m"), true},
		"it tolerates nothing":       {[]string{"a"}, pod("p", "n"), false},
		"it tolerates for a while":   {[]string{"a"}, pod("p", "n", tolerates("a", 100)), true},
		"it tolerates for ever":      {[]string{"a"}, pod("p", "n", tolerates("a", -1)), true},
		"it tolerates another taint": {[]string{"a"}, pod("p", "n", tolerates("b", -1)), false},
		"it tolerates one of two":    {[]string{"a", "b"}, pod("p", "n", tolerates("a", 100)), false},
		"it tolerates both":          {[]string{"a", "b"}, pod("p", "n", tolerates("a", 100), tolerates("b", 100)), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := run(t, nil)
				p.Load(node("n", tt.keys...))
				settle()
				p.Load(tt.pod)
				settle()
				if stays := len(left(p)) == 1; stays != tt.stays {
					t.Errorf("it stays: %v, want %v", stays, tt.stays)
				}
				if tt.stays {
					wantEvents(t, p)
				} else {
					wantEvents(t, p, marking)
				}
			})
		})
	}
}

// TestTheConditionOfAPod checks that a pod says why it is deleted, while it ends.
func TestTheConditionOfAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		p := run(t, registry)
		p.Load(node("n"))
		settle()
		slow := pod("p", "n", tolerates("a", 60))
		slow.Spec.TerminationGracePeriodSeconds = new(int64(30))
		p.Load(slow)
		settle()
		controltest.Change(p, "", "n", func(n *corev1.Node) { n.Spec.Taints = taints("a") })
		time.Sleep(59 * time.Second)
		if c := podstate.Condition(controltest.Get[*corev1.Pod](p, "default", "p"), corev1.DisruptionTarget); c != nil {
			t.Errorf("the condition too early: %+v", c)
		}
		time.Sleep(2 * time.Second)
		got := controltest.Get[*corev1.Pod](p, "default", "p")
		c := podstate.Condition(got, corev1.DisruptionTarget)
		if got.DeletionTimestamp == nil || c == nil || c.Status != corev1.ConditionTrue || c.Reason != "DeletionByTaintManager" ||
			c.Message != "Taint manager: deleting due to NoExecute taint" || c.ObservedGeneration != 3 || c.LastTransitionTime.IsZero() {
			t.Errorf("the pod is deleted at %v with the condition %+v", got.DeletionTimestamp, c)
		}
		wantEvents(t, p, marking)
		wanted := map[string]bool{
			"taint_eviction_controller_pod_deletions_total": true, "taint_eviction_controller_pod_deletion_duration_seconds": true,
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			m := family.GetMetric()[0]
			switch family.GetName() {
			case "taint_eviction_controller_pod_deletions_total":
				if m.GetCounter().GetValue() != 1 {
					t.Errorf("deletions are %v", m)
				}
			case "taint_eviction_controller_pod_deletion_duration_seconds":
				if h := m.GetHistogram(); h.GetSampleCount() != 1 || h.GetSampleSum() > 1 || len(h.GetBucket()) != 12 {
					t.Errorf("durations are %v", m)
				}
			default:
				continue
			}
			delete(wanted, family.GetName())
		}
		if len(wanted) > 0 {
			t.Errorf("there are no metrics %v", wanted)
		}
	})
}

// TestPlansAreCancelled checks that a deletion that was planned is dropped with an Event.
func TestPlansAreCancelled(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(p *controltest.Plane)
		events []string
	}{
		"the taint is removed": {func(p *controltest.Plane) {
			controltest.Change(p, "", "n", func(n *corev1.Node) { n.Spec.Taints = nil })
		}, []string{cancelling}},
		"the pod tolerates for ever": {func(p *controltest.Plane) {
			controltest.Change(p, "default", "p", func(pod *corev1.Pod) { pod.Spec.Tolerations[0].TolerationSeconds = nil })
		}, []string{cancelling}},
		"the pod is deleted": {func(p *controltest.Plane) {
			p.Remove(controltest.Get[*corev1.Pod](p, "default", "p"))
		}, []string{cancelling}},
		"the pod tolerates nothing": {func(p *controltest.Plane) {
			controltest.Change(p, "default", "p", func(pod *corev1.Pod) { pod.Spec.Tolerations = nil })
		}, []string{cancelling, marking}},
		"a taint comes that it does not tolerate": {func(p *controltest.Plane) {
			controltest.Change(p, "", "n", func(n *corev1.Node) { n.Spec.Taints = taints("a", "b") })
		}, []string{cancelling, marking}},
		"the time is shortened": {func(p *controltest.Plane) {
			controltest.Change(p, "default", "p", func(pod *corev1.Pod) { pod.Spec.Tolerations[0].TolerationSeconds = new(int64(40)) })
			time.Sleep(time.Minute)
		}, []string{marking}},
		"the time is lengthened, to no effect": {func(p *controltest.Plane) {
			controltest.Change(p, "default", "p", func(pod *corev1.Pod) { pod.Spec.Tolerations[0].TolerationSeconds = new(int64(4000)) })
			time.Sleep(2 * time.Minute)
		}, []string{marking}},
		"the node is gone, to no effect": {func(p *controltest.Plane) {
			p.Remove(controltest.Get[*corev1.Node](p, "", "n"))
			time.Sleep(2 * time.Minute)
		}, []string{marking}},
		"nothing happens": {func(*controltest.Plane) { time.Sleep(2 * time.Minute) }, []string{marking}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := run(t, nil)
				p.Load(node("n", "a"))
				settle()
				p.Load(pod("p", "n", tolerates("a", 100)))
				time.Sleep(30 * time.Second)
				wantEvents(t, p)
				tt.change(p)
				wantEvents(t, p, tt.events...)
				time.Sleep(5 * time.Minute)
				if stays := tt.events[len(tt.events)-1] == cancelling && name != "the pod is deleted"; stays != (len(left(p)) == 1) {
					t.Errorf("the pod stays: %v", !stays)
				}
				wantEvents(t, p, tt.events...)
			})
		})
	}
}

// TestEachPodHasItsTime checks that pods go when their own tolerations end.
func TestEachPodHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := run(t, nil)
		p.Load(node("n"))
		settle()
		p.Load(pod("a", "n", tolerates("a", 10), tolerates("b", 20)), pod("b", "n", tolerates("a", 20), tolerates("b", 30)),
			pod("c", "n", tolerates("a", -1), tolerates("b", -1)), pod("d", "n", tolerates("b", -1)))
		settle()
		controltest.Change(p, "", "n", func(n *corev1.Node) { n.Spec.Taints = taints("a", "b") })
		settle()
		wantLeft(t, p, "at once", "a", "b", "c")
		time.Sleep(10 * time.Second)
		wantLeft(t, p, "after 10 s", "b", "c")
		time.Sleep(10 * time.Second)
		wantLeft(t, p, "after 20 s", "c")
		time.Sleep(time.Hour)
		wantLeft(t, p, "in the end", "c")
	})
}

// TestASecondTermTakesUp checks that a deletion happens in time though another replica has taken over.
func TestASecondTermTakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		n := node("n", "a")
		added := metav1.Now()
		n.Spec.Taints[0].TimeAdded = &added
		p.Load(n, pod("p", "n", tolerates("a", 100)))
		runner, ended := p.Runner(New), make(chan error, 1)
		p.Start()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- runner.Run(ctx) }()
		time.Sleep(50 * time.Second)
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		go func() { ended <- runner.Run(ctx) }()
		time.Sleep(45 * time.Second)
		wantLeft(t, p, "before the time", "p")
		time.Sleep(10 * time.Second)
		wantLeft(t, p, "after the time")
		cancel()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	})
}

// TestALateCacheMarksOnce checks that a pod is marked for deletion once though the controller sees late that
// it was.
func TestALateCacheMarksOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.NewLate(t, "Pod", 3*time.Second)
		p.Declare(New)
		p.Start()
		p.Load(node("n"))
		slow := pod("p", "n")
		slow.Spec.TerminationGracePeriodSeconds = new(int64(600))
		p.Load(slow)
		time.Sleep(10 * time.Second)
		for _, keys := range [][]string{{"a"}, {"a", "b"}, {"b"}} {
			controltest.Change(p, "", "n", func(n *corev1.Node) { n.Spec.Taints = taints(keys...) })
			settle()
		}
		time.Sleep(time.Minute)
		wantEvents(t, p, marking)
	})
}
