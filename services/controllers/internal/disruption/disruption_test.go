package disruption

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type pdb = policyv1.PodDisruptionBudget

// budget selects the pods of an app.
func budget(name, app string, change func(*policyv1.PodDisruptionBudgetSpec)) *pdb {
	b := &pdb{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
	}
	if change != nil {
		change(&b.Spec)
	}
	return b
}

func least(value string) func(*policyv1.PodDisruptionBudgetSpec) {
	v := intstr.Parse(value)
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = &v }
}

func most(value string) func(*policyv1.PodDisruptionBudgetSpec) {
	v := intstr.Parse(value)
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = &v }
}

// pods returns n pods of an app, the first of them ready, owned by owner if it is set.
func pods(app string, n, ready int, owner *metav1.OwnerReference) []scheme.Object {
	var made []scheme.Object
	for i := range n {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d", app, i), Labels: map[string]string{"app": app}, UID: types.UID(fmt.Sprintf("%s-%d", app, i)),
		}}
		if owner != nil {
			pod.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		pod.Spec.NodeName = "n" // A pod without a node is gone as soon as it is deleted.
		controltest.SetReady(pod, i < ready)
		made = append(made, pod)
	}
	return made
}

func ref(version, kind, name string) *metav1.OwnerReference {
	yes := true
	return &metav1.OwnerReference{APIVersion: version, Kind: kind, Name: name, UID: types.UID(name), Controller: &yes}
}

func replicaSet(name string, replicas int32, owner *metav1.OwnerReference) *appsv1.ReplicaSet {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
	if owner != nil {
		rs.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return rs
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
}

// ofTwoSets returns a Deployment in the middle of a rollout, its ReplicaSets, and pods of each.
func ofTwoSets() []scheme.Object {
	owner := ref("apps/v1", "Deployment", "d")
	objs := []scheme.Object{deployment("d", 5), replicaSet("old", 3, owner), replicaSet("new", 3, owner)}
	for i, pod := range pods("a", 3, 3, nil) {
		set := []string{"old", "new", "old"}[i]
		pod.SetOwnerReferences([]metav1.OwnerReference{*ref("apps/v1", "ReplicaSet", set)})
		objs = append(objs, pod)
	}
	return objs
}

func plane(t *testing.T, objs ...scheme.Object) *controltest.Plane {
	t.Helper()
	p := controltest.New(t, objs...)
	p.Allow("get list watch apps/deployments", "get list watch apps/replicasets", "get list watch policy/poddisruptionbudgets",
		"update policy/poddisruptionbudgets/status", "patch update /pods/status", "get */scale", controltest.Events)
	p.Declare(New)
	p.Start()
	return p
}

// settle lets everything happen that happens within a second.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// numbers returns the numbers of a status in the order healthy, desired, expected, allowed.
func numbers(s policyv1.PodDisruptionBudgetStatus) [4]int32 {
	return [4]int32{s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods, s.DisruptionsAllowed}
}

// reason returns the status and the reason of the condition DisruptionAllowed.
func reason(s policyv1.PodDisruptionBudgetStatus) string {
	c := apimeta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason
}

func TestStatus(t *testing.T) {
	set := func(n int32) scheme.Object { return replicaSet("rs", n, nil) }
	ofSet := ref("apps/v1", "ReplicaSet", "rs")
	with := func(obj scheme.Object, more []scheme.Object) []scheme.Object {
		return append([]scheme.Object{obj}, more...)
	}
	for name, test := range map[string]struct {
		spec   func(*policyv1.PodDisruptionBudgetSpec)
		objs   []scheme.Object
		want   [4]int32
		reason string
		event  string
	}{
		"a number of pods at least":        {least("2"), pods("a", 5, 3, nil), [4]int32{3, 2, 5, 1}, "True SufficientPods", ""},
		"just enough":                      {least("3"), pods("a", 5, 3, nil), [4]int32{3, 3, 5, 0}, "False InsufficientPods", ""},
		"too few":                          {least("4"), pods("a", 5, 3, nil), [4]int32{3, 4, 5, 0}, "False InsufficientPods", ""},
		"none at least":                    {least("0"), pods("a", 1, 1, nil), [4]int32{1, 0, 1, 1}, "True SufficientPods", ""},
		"no pods":                          {least("0"), nil, [4]int32{0, 0, 0, 0}, "False InsufficientPods", "NoPods: No matching pods found"},
		"a part at least, rounded up":      {least("50%"), with(set(5), pods("a", 5, 5, ofSet)), [4]int32{5, 3, 5, 2}, "True SufficientPods", ""},
		"by the scale, not by the pods":    {least("50%"), with(set(10), pods("a", 5, 5, ofSet)), [4]int32{5, 5, 10, 0}, "False InsufficientPods", ""},
		"all at least":                     {least("100%"), with(set(2), pods("a", 2, 2, ofSet)), [4]int32{2, 2, 2, 0}, "False InsufficientPods", ""},
		"a number at most":                 {most("1"), with(set(5), pods("a", 5, 5, ofSet)), [4]int32{5, 4, 5, 1}, "True SufficientPods", ""},
		"a number at most, spent":          {most("1"), with(set(5), pods("a", 5, 4, ofSet)), [4]int32{4, 4, 5, 0}, "False InsufficientPods", ""},
		"a part at most, rounded up":       {most("30%"), with(set(5), pods("a", 5, 5, ofSet)), [4]int32{5, 3, 5, 2}, "True SufficientPods", ""},
		"more at most than there are":      {most("9"), with(set(3), pods("a", 3, 3, ofSet)), [4]int32{3, 0, 3, 3}, "True SufficientPods", ""},
		"pods without a controller":        {most("1"), pods("a", 3, 3, nil), [4]int32{3, 0, 0, 0}, "False InsufficientPods", "UnmanagedPods: Pods selected by this PodDisruptionBudget (selector: &LabelSelector{"},
		"neither nor":                      {nil, pods("a", 3, 3, nil), [4]int32{3, 0, 0, 0}, "False InsufficientPods", ""},
		"a controller that is gone":        {most("1"), pods("a", 1, 1, ofSet), [4]int32{0, 0, 0, 0}, "False SyncFailed", `CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: found no controllers for pod "a-0"`},
		"a kind that is not served":        {most("1"), pods("a", 1, 1, ref("example.com/v1", "Thing", "x")), [4]int32{0, 0, 0, 0}, "False SyncFailed", `CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: no matches for kind "Thing" in version "example.com/v1"`},
		"a kind without a scale":           {most("1"), pods("a", 1, 1, ref("v1", "ConfigMap", "x")), [4]int32{0, 0, 0, 0}, "False SyncFailed", "CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: configmaps does not implement the scale subresource"},
		"a kind read by its scale":         {most("1"), with(deployment("d", 4), pods("a", 2, 2, ref("apps/v1", "Deployment", "d"))), [4]int32{2, 3, 4, 0}, "False InsufficientPods", ""},
		"another of the controller's name": {most("1"), with(deployment("d", 4), pods("a", 1, 1, func() *metav1.OwnerReference { r := ref("apps/v1", "Deployment", "d"); r.UID = "old"; return r }())), [4]int32{0, 0, 0, 0}, "False SyncFailed", `CalculateExpectedPodCountFailed: Failed to calculate the number of expected pods: found no controllers for pod "a-0"`},
		"a Deployment with two sets":       {most("1"), ofTwoSets(), [4]int32{3, 4, 5, 0}, "False InsufficientPods", ""},
		"a set whose Deployment is gone":   {most("1"), with(replicaSet("rs", 3, ref("apps/v1", "Deployment", "gone")), pods("a", 3, 3, ofSet)), [4]int32{3, 2, 3, 1}, "True SufficientPods", ""},
		"a percentage that makes no sense": {func(s *policyv1.PodDisruptionBudgetSpec) {
			s.MinAvailable = &intstr.IntOrString{Type: intstr.String, StrVal: "x"}
		}, with(set(1), pods("a", 1, 1, ofSet)), [4]int32{0, 0, 0, 0}, "False SyncFailed", "CalculateExpectedPodCountFailed: "},
		"a selector that selects everything": {func(s *policyv1.PodDisruptionBudgetSpec) { s.Selector = &metav1.LabelSelector{}; least("1")(s) }, pods("other", 2, 2, nil), [4]int32{2, 1, 2, 1}, "True SufficientPods", ""},
		"no selector":                        {func(s *policyv1.PodDisruptionBudgetSpec) { s.Selector = nil; least("1")(s) }, pods("a", 2, 2, nil), [4]int32{0, 1, 0, 0}, "False InsufficientPods", "NoPods: No matching pods found"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t, test.objs...)
				controltest.Create(p, budget("b", "a", test.spec))
				settle()
				got := controltest.Get[*pdb](p, "default", "b").Status
				if numbers(got) != test.want || reason(got) != test.reason {
					t.Errorf("got healthy, desired, expected, allowed %v, %s; want %v, %s", numbers(got), reason(got), test.want, test.reason)
				}
				if !strings.HasSuffix(test.reason, "SyncFailed") && got.ObservedGeneration != 1 {
					t.Errorf("got observed generation %d", got.ObservedGeneration)
				}
				wantEvent, message, _ := strings.Cut(test.event, ": ")
				events := controltest.List[*corev1.Event](p)
				if (len(events) > 0) != (test.event != "") {
					t.Errorf("got %d events, want %q", len(events), test.event)
				}
				for _, e := range events {
					if e.Reason != wantEvent || !strings.HasPrefix(e.Message, message) || e.Source.Component != "controllermanager" {
						t.Errorf("event %s: %s of %s, want %s", e.Reason, e.Message, e.Source.Component, test.event)
					}
				}
			})
		})
	}
}

func TestFollowsThePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, pods("a", 3, 3, nil)...)
		controltest.Create(p, budget("b", "a", least("1")))
		check := func(when string, want [4]int32) {
			t.Helper()
			settle()
			if got := numbers(controltest.Get[*pdb](p, "default", "b").Status); got != want {
				t.Errorf("%s: got %v, want %v", when, got, want)
			}
		}
		check("at first", [4]int32{3, 1, 3, 2})
		controltest.MarkReady(p, "default", "a-0", false)
		check("one is not ready", [4]int32{2, 1, 3, 1})
		p.Remove(controltest.Get[*corev1.Pod](p, "default", "a-1"))
		check("one is gone", [4]int32{1, 1, 2, 0})
		controltest.MarkReady(p, "default", "a-0", true)
		check("ready again", [4]int32{2, 1, 2, 1})
		controltest.Change(p, "default", "a-0", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "other"} })
		check("one is not selected any more", [4]int32{1, 1, 1, 0})
		if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), "default", "a-2", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		check("one is ending", [4]int32{0, 1, 1, 0})
		controltest.Change(p, "default", "b", func(b *pdb) { b.Spec.Selector.MatchLabels["app"] = "other" })
		check("another selector", [4]int32{1, 1, 1, 0})
		if got := controltest.Get[*pdb](p, "default", "b").Status.ObservedGeneration; got != 2 {
			t.Errorf("got observed generation %d, want 2", got)
		}
		writes := len(p.Writes())
		controltest.Change(p, "default", "a-0", func(pod *corev1.Pod) { pod.Annotations = map[string]string{"x": "y"} })
		settle()
		if n := len(p.Writes()) - writes; n != 1 {
			t.Errorf("got %d writes, want only the test's own", n)
		}
	})
}

// evict changes a budget as the apiserver does before it deletes a pod.
func evict(p *controltest.Plane, name string) {
	controltest.SetStatus(p, "default", "b", func(b *pdb) {
		b.Status.DisruptionsAllowed--
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[name] = metav1.Now().Rfc3339Copy()
	})
}

func TestEvictedPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, pods("a", 3, 3, nil)...)
		controltest.Create(p, budget("b", "a", least("1")))
		settle()
		evict(p, "a-0")
		evict(p, "gone")
		settle()
		got := controltest.Get[*pdb](p, "default", "b").Status
		if numbers(got) != [4]int32{2, 1, 3, 1} || len(got.DisruptedPods) != 1 {
			t.Errorf("right after the eviction: %v, %v", numbers(got), got.DisruptedPods)
		}
		time.Sleep(117 * time.Second)
		synctest.Wait()
		if got := controltest.Get[*pdb](p, "default", "b").Status; numbers(got) != [4]int32{2, 1, 3, 1} {
			t.Errorf("before two minutes: %v", numbers(got))
		}
		time.Sleep(3 * time.Second)
		settle()
		got = controltest.Get[*pdb](p, "default", "b").Status
		if numbers(got) != [4]int32{3, 1, 3, 2} || len(got.DisruptedPods) != 0 {
			t.Errorf("after two minutes: %v, %v", numbers(got), got.DisruptedPods)
		}
		if events := p.Events("NotDeleted"); len(events) != 1 || events[0] != "Pod was expected by PDB default/b to be deleted but it wasn't" {
			t.Errorf("got events %q", events)
		}
		evict(p, "a-1")
		if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), "default", "a-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		got = controltest.Get[*pdb](p, "default", "b").Status
		if numbers(got) != [4]int32{2, 1, 3, 1} || len(got.DisruptedPods) != 0 {
			t.Errorf("when the pod is ending: %v, %v", numbers(got), got.DisruptedPods)
		}
	})
}

func TestSeveralBudgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, budget("one", "a", least("1")), budget("two", "a", least("1")), budget("other", "b", least("1")))
		settle()
		for _, pod := range pods("a", 1, 1, nil) {
			p.Load(pod)
		}
		settle()
		for _, name := range []string{"one", "two"} {
			if got := numbers(controltest.Get[*pdb](p, "default", name).Status); got != [4]int32{1, 1, 1, 0} {
				t.Errorf("%s: %v", name, got)
			}
		}
		want := `Pod "default"/"a-0" matches multiple PodDisruptionBudgets.  Chose "one" arbitrarily.`
		if events := p.Events("MultiplePodDisruptionBudgets"); len(events) != 1 || events[0] != want {
			t.Errorf("got events %q", events)
		}
	})
}

// TestFailSafe checks that no pod may be evicted while a budget cannot be computed, and that the
// budget recovers by itself.
func TestFailSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, append(pods("a", 3, 3, ref("apps/v1", "Deployment", "d")), deployment("d", 3))...)
		controltest.Create(p, budget("b", "a", most("1")))
		settle()
		if got := controltest.Get[*pdb](p, "default", "b").Status; numbers(got) != [4]int32{3, 2, 3, 1} {
			t.Fatalf("at first: %v", numbers(got))
		}
		p.Fail(func(call client.Call) error {
			if call.Subresource == "scale" {
				return errors.New("no scale today")
			}
			return nil
		})
		controltest.MarkReady(p, "default", "a-0", true)
		settle()
		got := controltest.Get[*pdb](p, "default", "b").Status
		condition := apimeta.FindStatusCondition(got.Conditions, policyv1.DisruptionAllowedCondition)
		if numbers(got) != [4]int32{3, 2, 3, 0} || reason(got) != "False SyncFailed" || !strings.Contains(condition.Message, "no scale today") {
			t.Errorf("while it fails: %v, %+v", numbers(got), condition)
		}
		p.Fail(nil)
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if got := controltest.Get[*pdb](p, "default", "b").Status; numbers(got) != [4]int32{3, 2, 3, 1} || reason(got) != "True SufficientPods" {
			t.Errorf("afterwards: %v, %s", numbers(got), reason(got))
		}
	})
}

func TestStaleDisruptions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, pods("a", 4, 4, nil)...)
		announce := func(name, reason string) {
			controltest.SetStatus(p, "default", name, func(pod *corev1.Pod) {
				pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now().Rfc3339Copy(),
				})
			})
		}
		announce("a-0", "EvictionByEvictionAPI")
		announce("a-1", corev1.PodReasonTerminationByKubelet)
		announce("a-2", "EvictionByEvictionAPI")
		controltest.SetStatus(p, "default", "a-2", func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		announce("a-3", "EvictionByEvictionAPI")
		if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), "default", "a-3", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		check := func(when string, want map[string]corev1.ConditionStatus) {
			t.Helper()
			settle()
			for name, status := range want {
				pod := controltest.Get[*corev1.Pod](p, "default", name)
				if got := pod.Status.Conditions[1]; got.Status != status {
					t.Errorf("%s: %s has %+v", when, name, got)
				}
			}
		}
		check("at once", map[string]corev1.ConditionStatus{"a-0": "True", "a-1": "True", "a-2": "True", "a-3": "True"})
		time.Sleep(2 * time.Minute)
		check("later", map[string]corev1.ConditionStatus{"a-0": "False", "a-1": "True", "a-2": "True", "a-3": "True"})
	})
}

// TestEvictionsNeverPassTheBudget lets pods come, go and be evicted at random, using up the budget
// as the apiserver does. It checks that never too many pods are gone.
func TestEvictionsNeverPassTheBudget(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7))
			p := plane(t, pods("a", 8, 8, nil)...)
			controltest.Create(p, budget("b", "a", least("5")))
			settle()
			resource, evicted := client.Of[*corev1.Pod](p.Client), 0
			for range 60 {
				all := controltest.List[*corev1.Pod](p)
				victim := all[random.IntN(len(all))]
				// Budget and pod are read separately, as by the apiserver, and the controller may
				// write in between. The budget's resourceVersion is then outdated, and the eviction
				// is refused.
				b := controltest.Get[*pdb](p, "default", "b")
				if random.IntN(2) == 0 {
					time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond)
				}
				_, twice := b.Status.DisruptedPods[victim.Name]
				if b.Status.DisruptionsAllowed > 0 && !twice && victim.DeletionTimestamp == nil {
					b.Status.DisruptionsAllowed--
					if b.Status.DisruptedPods == nil {
						b.Status.DisruptedPods = map[string]metav1.Time{}
					}
					b.Status.DisruptedPods[victim.Name] = metav1.Now().Rfc3339Copy()
					if _, err := client.Of[*pdb](p.Client).UpdateStatus(t.Context(), b, metav1.UpdateOptions{}); err == nil {
						evicted++
						_ = resource.Delete(t.Context(), "default", victim.Name, metav1.DeleteOptions{})
					}
				}
				if random.IntN(4) == 0 { // Its node ends a pod, and another comes.
					for _, pod := range controltest.List[*corev1.Pod](p) {
						if pod.DeletionTimestamp != nil {
							p.Remove(pod)
							fresh := pods("a", 1, 1, nil)[0].(*corev1.Pod)
							fresh.Name, fresh.UID = fmt.Sprintf("a-%d-%d", seed, random.Uint32()), ""
							p.Load(fresh)
							break
						}
					}
				}
				if random.IntN(3) == 0 {
					time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
				}
				healthy := 0
				for _, pod := range controltest.List[*corev1.Pod](p) {
					if pod.DeletionTimestamp == nil {
						healthy++
					}
				}
				if healthy < 5 {
					t.Fatalf("seed %d: got %d healthy pods left, too few", seed, healthy)
				}
			}
			settle()
			if evicted < 5 {
				t.Errorf("seed %d: got only %d evictions", seed, evicted)
			}
		})
	}
}
