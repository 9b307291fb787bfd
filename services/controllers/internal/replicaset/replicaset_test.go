package replicaset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func set(name string, replicas int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"note": "x"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

// plane runs the controller, inside a bubble, on an API with objects.
func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch update apps/replicasets", "update apps/replicasets/status", "list watch patch create delete /pods", controltest.Events)
	p.Declare(New)
	return p
}

// settle lets everything happen that happens within a second.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func TestCreatesPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		rs := controltest.Create(p, set("web", 3))
		settle()
		pods := controltest.List[*corev1.Pod](p)
		if len(pods) != 3 {
			t.Fatalf("got %d pods, want 3", len(pods))
		}
		for _, pod := range pods {
			if !strings.HasPrefix(pod.Name, "web-") || !metav1.IsControlledBy(pod, rs) || pod.Annotations["note"] != "x" {
				t.Errorf("got pod %+v", pod.ObjectMeta)
			}
			if ref := pod.OwnerReferences[0]; ref.BlockOwnerDeletion == nil || !*ref.BlockOwnerDeletion || ref.APIVersion != "apps/v1" || ref.Kind != "ReplicaSet" {
				t.Errorf("got owner %+v", ref)
			}
		}
		got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status
		if got.Replicas != 3 || got.FullyLabeledReplicas != 3 || got.ReadyReplicas != 0 || got.ObservedGeneration != 1 || *got.TerminatingReplicas != 0 {
			t.Errorf("got status %+v", got)
		}
		writes := 0
		for _, call := range p.Writes() {
			if call.Kind.Resource == "replicasets" && call.Subresource == "status" {
				writes++
			}
		}
		if writes != 1 {
			t.Errorf("got %d writes of the status, want 1, once all pods can be counted", writes)
		}
		events := p.Events("SuccessfulCreate")
		if len(events) != 3 || !slices.Contains(events, "Created pod: "+pods[0].Name) {
			t.Errorf("got events %q", events)
		}
	})
}

func TestExpectationsKeepItFromCreatingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set("web", 20))
		for i := range 20 {
			// Every change of the ReplicaSet triggers another reconcile, whatever the cache shows.
			controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) {
				rs.Annotations = map[string]string{"n": fmt.Sprint(i)}
			})
		}
		settle()
		if n := len(controltest.List[*corev1.Pod](p)); n != 20 {
			t.Errorf("got %d pods, want 20", n)
		}
		creations := 0
		for _, call := range p.Writes() {
			if call.Verb == "create" && call.Kind.Resource == "pods" {
				creations++
			}
		}
		if creations != 20 {
			t.Errorf("got %d creations, want 20", creations)
		}
	})
}

func TestReplacesPodsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set("web", 2))
		settle()
		pods := controltest.List[*corev1.Pod](p)
		controltest.SetStatus(p, "default", pods[0].Name, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed })
		settle()
		if n := len(controltest.List[*corev1.Pod](p)); n != 3 {
			t.Errorf("got %d pods, want the failed one and 2", n)
		}
		if got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status; got.Replicas != 2 {
			t.Errorf("got status %+v", got)
		}
	})
}

func TestCountsPodsThatAreEnding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set("web", 1))
		settle()
		pod := controltest.List[*corev1.Pod](p)[0]
		controltest.Change(p, "default", pod.Name, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hold"} })
		if err := client.Of[*corev1.Pod](p.Client).Delete(t.Context(), "default", pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		settle()
		if n := len(controltest.List[*corev1.Pod](p)); n != 2 {
			t.Fatalf("got %d pods, want the terminating one and its replacement", n)
		}
		got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status
		if got.Replicas != 1 || *got.TerminatingReplicas != 1 {
			t.Errorf("got status %+v", got)
		}
	})
}

func TestScaleDownTakesTheCheapest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set("web", 3))
		settle()
		pods := controltest.List[*corev1.Pod](p)
		for _, pod := range pods[:2] {
			controltest.MarkReady(p, "default", pod.Name, true)
		}
		settle() // pods and ReplicaSets are watched separately
		controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = 2 })
		settle()
		left := controltest.List[*corev1.Pod](p)
		if len(left) != 2 || left[0].Name != pods[0].Name || left[1].Name != pods[1].Name {
			t.Errorf("got %d pods left, want 2", len(left))
		}
		if events := p.Events("SuccessfulDelete"); len(events) != 1 || events[0] != "Deleted pod: "+pods[2].Name {
			t.Errorf("got events %q", events)
		}
		got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status
		if got.Replicas != 2 || got.ReadyReplicas != 2 || got.AvailableReplicas != 2 || got.ObservedGeneration != 2 {
			t.Errorf("got status %+v", got)
		}
	})
}

func TestAdoptsAndReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}})
		p.Start()
		rs := controltest.Create(p, set("web", 2))
		settle()
		if n := len(controltest.List[*corev1.Pod](p)); n != 2 {
			t.Fatalf("got %d pods, want the stray one and another", n)
		}
		stray := controltest.Get[*corev1.Pod](p, "default", "stray")
		if !metav1.IsControlledBy(stray, rs) {
			t.Fatalf("the pod was not adopted: got owners %+v", stray.OwnerReferences)
		}
		controltest.Change(p, "default", "stray", func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": "debug"} })
		settle()
		if stray := controltest.Get[*corev1.Pod](p, "default", "stray"); len(stray.OwnerReferences) != 0 {
			t.Errorf("the pod was not released: got owners %+v", stray.OwnerReferences)
		}
		if n := len(controltest.List[*corev1.Pod](p)); n != 3 {
			t.Errorf("got %d pods, want the released one and 2", n)
		}
	})
}

func TestTheDeletedAdoptNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		rs := set("web", 1)
		rs.Finalizers = []string{metav1.FinalizerDeleteDependents}
		p.Load(rs)
		if err := client.Of[*appsv1.ReplicaSet](p.Client).Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		p.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}})
		p.Start()
		settle()
		pods := controltest.List[*corev1.Pod](p)
		if len(pods) != 1 || len(pods[0].OwnerReferences) != 0 {
			t.Errorf("got pods %v", pods)
		}
	})
}

func TestAdoptionAsksTheAPIFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Load(set("web", 1))
		p.Fail(func(call client.Call) error {
			if call.Verb == "get" && call.Kind.Resource == "replicasets" {
				return apierrors.NewNotFound(call.Kind.GroupResource(), call.Name)
			}
			return nil
		})
		p.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}})
		p.Start()
		settle()
		for _, call := range p.Writes() {
			if call.Kind.Resource == "pods" {
				t.Errorf("got a %s of pod %q by a deleted ReplicaSet", call.Verb, call.Name)
			}
		}
	})
}

func TestFailureToCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		var refuse atomic.Bool
		refuse.Store(true)
		p.Fail(func(call client.Call) error {
			if refuse.Load() && call.Verb == "create" && call.Kind.Resource == "pods" {
				return apierrors.NewForbidden(call.Kind.GroupResource(), "", errors.New("exceeded quota"))
			}
			return nil
		})
		p.Start()
		controltest.Create(p, set("web", 100))
		synctest.Wait()
		time.Sleep(15 * time.Millisecond) // Before the first retry.
		creations := len(slices.DeleteFunc(p.Writes(), func(c client.Call) bool { return c.Verb != "create" || c.Kind.Resource != "pods" }))
		if creations > 4 {
			t.Errorf("got %d creations at once, want a slow start", creations)
		}
		settle()
		got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status
		if len(got.Conditions) != 1 || got.Conditions[0].Type != appsv1.ReplicaSetReplicaFailure || got.Conditions[0].Reason != "FailedCreate" ||
			!strings.Contains(got.Conditions[0].Message, "exceeded quota") {
			t.Fatalf("got conditions %+v", got.Conditions)
		}
		if events := p.Events("FailedCreate"); len(events) == 0 || !strings.HasPrefix(events[0], "Error creating: pods") {
			t.Errorf("got events %q", events)
		}
		refuse.Store(false)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status; len(got.Conditions) != 0 || got.Replicas != 100 {
			t.Errorf("got status %+v", got)
		}
	})
}

func TestMinReadySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		rs := set("web", 1)
		rs.Spec.MinReadySeconds = 10
		controltest.Create(p, rs)
		settle()
		controltest.MarkReady(p, "default", controltest.List[*corev1.Pod](p)[0].Name, true)
		time.Sleep(5 * time.Second)
		if got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status; got.ReadyReplicas != 1 || got.AvailableReplicas != 0 {
			t.Errorf("got status %+v after 5 s", got)
		}
		time.Sleep(7 * time.Second)
		if got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status; got.AvailableReplicas != 1 {
			t.Errorf("got status %+v after 12 s", got)
		}
	})
}

func TestSecondTermTakesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		c := p.Runner(New)
		p.Start() // Only the informers.
		controltest.Create(p, set("web", 1))
		for term := range int32(2) {
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- c.Run(ctx) }()
			settle()
			if n := len(controltest.List[*corev1.Pod](p)); n != int(term)+1 {
				t.Errorf("term %d: got %d pods", term, n)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("term %d: %v", term, err)
			}
			controltest.Change(p, "default", "web", func(rs *appsv1.ReplicaSet) { *rs.Spec.Replicas = term + 2 })
		}
	})
}

func TestDeletionOrder(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: types.UID("m"), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
			Spec:       corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
			}}},
		}
		change(p)
		return p
	}
	plain := func(*corev1.Pod) {}
	notReady := func(p *corev1.Pod) { p.Status.Conditions = nil }
	always := corev1.ContainerRestartPolicyAlways
	for name, test := range map[string]struct{ first, second func(*corev1.Pod) }{
		"without a node":       {func(p *corev1.Pod) { p.Spec.NodeName = "" }, notReady},
		"pending":              {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending; notReady(p) }, notReady},
		"pending over unknown": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }},
		"unknown over running": {func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }, notReady},
		"not ready": {func(p *corev1.Pod) { notReady(p); p.Annotations = map[string]string{deletionCost: "100"} },
			plain},
		"lower cost": {func(p *corev1.Pod) { p.Annotations = map[string]string{deletionCost: "-5"} },
			func(p *corev1.Pod) { p.Spec.NodeName = "crowded" }},
		"on the crowded node": {func(p *corev1.Pod) { p.Spec.NodeName = "crowded" },
			func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Second)) }},
		"ready for a shorter time": {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-time.Minute)) },
			func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 9}} }},
		"ready for an unknown time": {func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }, plain},
		"more restarts": {func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 1}, {RestartCount: 3}}
		},
			func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 2}, {RestartCount: 2}}
			}},
		"more restarts of a sidecar": {func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "s", RestartPolicy: &always}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "s", RestartCount: 1}}
		}, func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", RestartCount: 5}}
		}},
		"younger": {func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-time.Minute)) }, plain},
		"of about the same age, by UID": {func(p *corev1.Pod) {
			p.UID, p.CreationTimestamp = "a", metav1.NewTime(now.Add(-61*time.Minute))
		}, plain},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := pod(test.first), pod(test.second)
			onNode := map[string]int{"n": 1, "crowded": 2}
			if got := compareForDeletion(first, second, onNode, now); got >= 0 {
				t.Errorf("got order %d, want the first pod first", got)
			}
			if got := compareForDeletion(second, first, onNode, now); got <= 0 {
				t.Errorf("got reverse order %d, want the first pod first", got)
			}
		})
	}
}

func TestChooseSpreadsOverNodes(t *testing.T) {
	pod := func(name, node string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	mine := []*corev1.Pod{pod("a", "n1"), pod("b", "n2")}
	related := append(slices.Clone(mine), pod("sibling", "n2"))
	if got := chooseToDelete(mine, related, 1, time.Now()); len(got) != 1 || got[0].Name != "b" {
		t.Errorf("chose %v", got)
	}
	if mine[0].Name != "a" {
		t.Error("the caller's slice was sorted")
	}
}
