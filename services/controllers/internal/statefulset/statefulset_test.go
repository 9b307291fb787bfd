package statefulset

import (
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

// set returns a StatefulSet as the apiserver would complete it.
func set(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	limit, zero := int32(10), int32(0)
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: labels, Annotations: map[string]string{"cause": "first"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: "headless",
			PodManagementPolicy: appsv1.OrderedReadyPodManagement, RevisionHistoryLimit: &limit,
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				Type:          appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &zero},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: map[string]string{"note": "x"}},
				Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "v1"}}},
			},
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

func parallel(s *appsv1.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func claiming(s *appsv1.StatefulSet) {
	s.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"tier": "x"}}}}
}

// plane runs the controller, inside a bubble, on an API with objects.
func plane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch apps/statefulsets", "update apps/statefulsets/status", "get create delete update patch /pods",
		"get list watch create delete update patch apps/controllerrevisions", "get list watch create update delete /persistentvolumeclaims", controltest.Events)
	p.Declare(New)
	return p
}

// settle lets everything happen that happens within a second.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// pods returns the pods with their images, sorted by name: "web-0 v1".
func pods(p *controltest.Plane) string {
	var found []string
	for _, pod := range controltest.List[*corev1.Pod](p) {
		text := pod.Name + " " + pod.Spec.Containers[0].Image
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

func ready(p *controltest.Plane, ordinal int, is bool) {
	controltest.MarkReady(p, "default", fmt.Sprintf("web-%d", ordinal), is)
}

// gone removes a pod that is being deleted, as its node would.
func gone(p *controltest.Plane, ordinal int) {
	p.Remove(controltest.Get[*corev1.Pod](p, "default", fmt.Sprintf("web-%d", ordinal)))
}

func change(p *controltest.Plane, f func(*appsv1.StatefulSet)) {
	controltest.Change(p, "default", "web", f)
}

func scale(p *controltest.Plane, replicas int32) {
	change(p, func(s *appsv1.StatefulSet) { s.Spec.Replicas = &replicas })
}

func image(p *controltest.Plane, image string) {
	change(p, func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.Containers[0].Image = image })
}

func status(p *controltest.Plane) appsv1.StatefulSetStatus {
	return controltest.Get[*appsv1.StatefulSet](p, "default", "web").Status
}

// TestOrder checks that pods come one after the other, go in reverse, and what they are.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		s := controltest.Create(p, set(3, claiming))
		expect(t, p, "at first", "web-0 v1")
		pod := controltest.Get[*corev1.Pod](p, "default", "web-0")
		got := status(p)
		wantLabels := map[string]string{
			"app": "web", "statefulset.kubernetes.io/pod-name": "web-0", "apps.kubernetes.io/pod-index": "0", "controller-revision-hash": got.UpdateRevision,
		}
		if fmt.Sprint(pod.Labels) != fmt.Sprint(wantLabels) || pod.Annotations["note"] != "x" || !metav1.IsControlledBy(pod, s) || pod.GenerateName != "web-" {
			t.Errorf("got pod %+v", pod.ObjectMeta)
		}
		if pod.Spec.Hostname != "web-0" || pod.Spec.Subdomain != "headless" || len(pod.Spec.Volumes) != 1 ||
			pod.Spec.Volumes[0].Name != "data" || pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-web-0" {
			t.Errorf("got pod %+v", pod.Spec)
		}
		claim := controltest.Get[*corev1.PersistentVolumeClaim](p, "default", "data-web-0")
		if claim.Labels["app"] != "web" || claim.Labels["tier"] != "x" || len(claim.OwnerReferences) != 0 {
			t.Errorf("got claim %+v", claim.ObjectMeta)
		}
		if got.ObservedGeneration != 1 || got.Replicas != 1 || got.ReadyReplicas != 0 || got.CurrentReplicas != 1 || got.UpdatedReplicas != 1 ||
			got.CollisionCount == nil || *got.CollisionCount != 0 || !strings.HasPrefix(got.UpdateRevision, "web-") || got.CurrentRevision != got.UpdateRevision {
			t.Errorf("got status %+v", got)
		}
		for i, want := range []string{"web-0 v1, web-1 v1", "web-0 v1, web-1 v1, web-2 v1", "web-0 v1, web-1 v1, web-2 v1"} {
			ready(p, i, true)
			expect(t, p, fmt.Sprintf("after pod %d is ready", i), want)
		}
		if got := status(p); got.Replicas != 3 || got.ReadyReplicas != 3 || got.AvailableReplicas != 3 || got.CurrentReplicas != 3 {
			t.Errorf("got status %+v", got)
		}
		if got := p.Events("SuccessfulCreate"); !slices.Contains(got, "Create Pod web-2 in StatefulSet web successful") ||
			!slices.Contains(got, "Create Claim data-web-2 Pod web-2 in StatefulSet web success") || len(got) != 6 {
			t.Errorf("got Events %q", got)
		}
		scale(p, 1)
		expect(t, p, "scaled down", "web-0 v1, web-1 v1, web-2 v1 ending")
		gone(p, 2)
		expect(t, p, "after the last is gone", "web-0 v1, web-1 v1 ending")
		gone(p, 1)
		expect(t, p, "in the end", "web-0 v1")
		if got := p.Events("SuccessfulDelete"); !slices.Equal(got, []string{"Delete Pod web-2 in StatefulSet web successful", "Delete Pod web-1 in StatefulSet web successful"}) {
			t.Errorf("got Events %q", got)
		}
		if n := len(controltest.List[*corev1.PersistentVolumeClaim](p)); n != 3 {
			t.Errorf("%d claims are left, want 3", n)
		}
	})
}

// TestUnavailablePodsStopAnOrderedSet checks what waits for what.
func TestUnavailablePodsStopAnOrderedSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set(3))
		settle()
		for i := range 3 {
			ready(p, i, true)
			settle()
		}
		ready(p, 0, false)
		settle()
		scale(p, 2)
		expect(t, p, "scaled down while the first is not ready", "web-0 v1, web-1 v1, web-2 v1")
		ready(p, 0, true)
		expect(t, p, "when it is ready", "web-0 v1, web-1 v1, web-2 v1 ending")
		scale(p, 4)
		expect(t, p, "scaled up while the last ends", "web-0 v1, web-1 v1, web-2 v1 ending")
		gone(p, 2)
		expect(t, p, "when it is gone", "web-0 v1, web-1 v1, web-2 v1")
		ready(p, 2, true)
		settle()
		ready(p, 3, false)
		settle()
		scale(p, 2)
		expect(t, p, "the only one that is not ready goes", "web-0 v1, web-1 v1, web-2 v1, web-3 v1 ending")
		gone(p, 3)
		expect(t, p, "and then the next", "web-0 v1, web-1 v1, web-2 v1 ending")
	})
}

// TestCondemnedWaitForTheFirstUnavailable checks that of several pods that go, the lowest that is not
// available must become so first.
func TestCondemnedWaitForTheFirstUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set(3))
		settle()
		for i := range 3 {
			ready(p, i, true)
			settle()
		}
		ready(p, 1, false)
		ready(p, 2, false)
		settle()
		scale(p, 1)
		expect(t, p, "with two that are not ready", "web-0 v1, web-1 v1, web-2 v1")
		ready(p, 1, true)
		expect(t, p, "with one", "web-0 v1, web-1 v1, web-2 v1 ending")
	})
}

// TestParallel checks that a parallel set waits for nothing.
func TestParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Start()
		controltest.Create(p, set(4, parallel, func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3} }))
		expect(t, p, "at first", "web-3 v1, web-4 v1, web-5 v1, web-6 v1")
		if got := status(p); got.Replicas != 4 || got.UpdatedReplicas != 4 {
			t.Errorf("got status %+v", got)
		}
		change(p, func(s *appsv1.StatefulSet) { s.Spec.Ordinals.Start = 5 })
		expect(t, p, "with another start", "web-3 v1 ending, web-4 v1 ending, web-5 v1, web-6 v1, web-7 v1, web-8 v1")
		scale(p, 0)
		expect(t, p, "scaled to 0", "web-3 v1 ending, web-4 v1 ending, web-5 v1 ending, web-6 v1 ending, web-7 v1 ending, web-8 v1 ending")
	})
}

// TestEndedPodsAreReplaced covers pods that were evicted, or whose containers ended.
func TestEndedPodsAreReplaced(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		synctest.Test(t, func(t *testing.T) {
			p := plane(t)
			p.Start()
			controltest.Create(p, set(2, func(s *appsv1.StatefulSet) { s.Spec.Template.Finalizers = []string{"example.com/hold"} }))
			settle()
			ready(p, 0, true)
			settle()
			before := controltest.Get[*corev1.Pod](p, "default", "web-0").UID
			controltest.SetStatus(p, "default", "web-0", func(pod *corev1.Pod) { pod.Status.Phase = phase })
			expect(t, p, "after it ended", "web-0 v1 ending, web-1 v1")
			gone(p, 0)
			expect(t, p, "after it is gone", "web-0 v1, web-1 v1")
			if controltest.Get[*corev1.Pod](p, "default", "web-0").UID == before {
				t.Error("the pod is the same")
			}
		})
	}
}

// TestRollout checks the order of a rollout, its partition, its end, and a rollback.
func TestRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Add(p.RunPods)
		p.Start()
		controltest.Create(p, set(3))
		expect(t, p, "at first", "web-0 v1, web-1 v1, web-2 v1")
		first := status(p).UpdateRevision
		two := int32(2)
		change(p, func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy.RollingUpdate.Partition = &two
			s.Annotations["cause"] = "second"
			s.Spec.Template.Spec.Containers[0].Image = "v2"
		})
		expect(t, p, "above the partition", "web-0 v1, web-1 v1, web-2 v2")
		got := status(p)
		if got.CurrentRevision != first || got.UpdateRevision == first || got.CurrentReplicas != 2 || got.UpdatedReplicas != 1 {
			t.Errorf("got status %+v", got)
		}
		second := controltest.Get[*appsv1.ControllerRevision](p, "default", got.UpdateRevision)
		if second.Revision != 2 || second.Annotations["cause"] != "second" || second.Labels["app"] != "web" || second.Labels["controller.kubernetes.io/hash"] == "" {
			t.Errorf("got revision %+v", second)
		}
		p.Remove(controltest.Get[*corev1.Pod](p, "default", "web-1"))
		expect(t, p, "a pod below the partition comes back", "web-0 v1, web-1 v1, web-2 v2")
		change(p, func(s *appsv1.StatefulSet) { *s.Spec.UpdateStrategy.RollingUpdate.Partition = 0 })
		expect(t, p, "without partition", "web-0 v2, web-1 v2, web-2 v2")
		if got := status(p); got.CurrentRevision != second.Name || got.CurrentReplicas != 3 || got.UpdatedReplicas != 3 {
			t.Errorf("got status %+v", got)
		}
		image(p, "v1")
		expect(t, p, "rolled back", "web-0 v1, web-1 v1, web-2 v1")
		back := controltest.Get[*appsv1.ControllerRevision](p, "default", first)
		if back.Revision != 3 || status(p).CurrentRevision != first || len(controltest.List[*appsv1.ControllerRevision](p)) != 2 {
			t.Errorf("got revision %d and status %+v", back.Revision, status(p))
		}
	})
}

// TestOnDelete checks that pods are replaced only when somebody deletes them.
func TestOnDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Add(p.RunPods)
		p.Start()
		controltest.Create(p, set(2, func(s *appsv1.StatefulSet) {
			s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}))
		settle()
		image(p, "v2")
		expect(t, p, "after the change", "web-0 v1, web-1 v1")
		gone(p, 1)
		expect(t, p, "after a deletion", "web-0 v1, web-1 v2")
	})
}

// TestMaxUnavailable checks how many pods a rollout takes at a time.
func TestMaxUnavailable(t *testing.T) {
	for name, test := range map[string]struct {
		most     *intstr.IntOrString
		parallel bool
		unready  []int
		want     string
	}{
		"one by default":           {nil, false, nil, "web-0 v1, web-1 v1, web-2 v1, web-3 v1, web-4 v1 ending"},
		"two":                      {new(intstr.FromInt32(2)), false, nil, "web-0 v1, web-1 v1, web-2 v1, web-3 v1 ending, web-4 v1 ending"},
		"a percentage":             {new(intstr.FromString("70%")), true, nil, "web-0 v1, web-1 v1, web-2 v1 ending, web-3 v1 ending, web-4 v1 ending"},
		"a small percentage":       {new(intstr.FromString("1%")), true, nil, "web-0 v1, web-1 v1, web-2 v1, web-3 v1, web-4 v1 ending"},
		"ordered and broken":       {new(intstr.FromInt32(2)), false, []int{1}, "web-0 v1, web-1 v1, web-2 v1, web-3 v1, web-4 v1"},
		"broken ones first":        {new(intstr.FromInt32(2)), true, []int{0, 1}, "web-0 v1 ending, web-1 v1 ending, web-2 v1, web-3 v1, web-4 v1"},
		"broken ones beyond":       {new(intstr.FromInt32(1)), true, []int{0, 1, 2}, "web-0 v1 ending, web-1 v1 ending, web-2 v1 ending, web-3 v1, web-4 v1"},
		"a broken one and another": {new(intstr.FromInt32(2)), true, []int{0}, "web-0 v1 ending, web-1 v1, web-2 v1, web-3 v1, web-4 v1 ending"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := plane(t)
				p.Start()
				s := set(5, parallel)
				s.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = test.most
				controltest.Create(p, s)
				settle()
				for i := range 5 {
					ready(p, i, !slices.Contains(test.unready, i))
				}
				settle()
				change(p, func(s *appsv1.StatefulSet) {
					if !test.parallel {
						s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
					}
					s.Spec.Template.Spec.Containers[0].Image = "v2"
				})
				expect(t, p, "after the change", test.want)
			})
		})
	}
}

// TestMinReadySeconds checks that a pod must be ready for a time, and that nothing else need happen then.
func TestMinReadySeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t)
		p.Add(p.RunPods)
		p.Start()
		controltest.Create(p, set(2, func(s *appsv1.StatefulSet) { s.Spec.MinReadySeconds = 30 }))
		expect(t, p, "at first", "web-0 v1")
		time.Sleep(25 * time.Second)
		if got := status(p); got.ReadyReplicas != 1 || got.AvailableReplicas != 0 {
			t.Errorf("got status %+v", got)
		}
		time.Sleep(6 * time.Second)
		expect(t, p, "after 30 seconds", "web-0 v1, web-1 v1")
		time.Sleep(31 * time.Second)
		if got := status(p); got.ReadyReplicas != 2 || got.AvailableReplicas != 2 {
			t.Errorf("got status %+v", got)
		}
	})
}
