package deployment_test

import (
	"errors"
	"flag"
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
	"k8s.io/apimachinery/pkg/util/intstr"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
	"github.com/garboard/garboard/services/controllers/internal/deployment"
	"github.com/garboard/garboard/services/controllers/internal/replicaset"
)

func TestMain(m *testing.M) {
	// Each check is a whole history of rollouts.
	if err := flag.Set("rapid.checks", "40"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const (
	revision = "deployment.kubernetes.io/revision"
	history  = "deployment.kubernetes.io/revision-history"
	desired  = "deployment.kubernetes.io/desired-replicas"
	most     = "deployment.kubernetes.io/max-replicas"
)

func web(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	quarter := intstr.FromString("25%")
	limit, deadline := int32(10), int32(600)
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			RevisionHistoryLimit: &limit, ProgressDeadlineSeconds: &deadline,
			Strategy: appsv1.DeploymentStrategy{
				Type:          appsv1.RollingUpdateDeploymentStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "web:1"}}},
			},
		},
	}
}

// plane runs the Deployment and the ReplicaSet controllers, and, if pods is set, a simulation that
// makes pods ready.
func plane(t *testing.T, pods bool) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch update apps/deployments", "update apps/deployments/status", "get list watch create update patch delete apps/replicasets", "get list watch update /pods", controltest.Events,
		// The ReplicaSet controller runs beside the Deployment controller.
		"update apps/replicasets/status", "patch create delete /pods")
	p.Declare(deployment.New)
	p.Declare(replicaset.New)
	if pods {
		p.Add(p.RunPods)
	}
	return p
}

func settle() {
	time.Sleep(5 * time.Second)
	synctest.Wait()
}

func get(p *controltest.Plane) *appsv1.Deployment {
	return controltest.Get[*appsv1.Deployment](p, "default", "web")
}

func change(p *controltest.Plane, f func(*appsv1.Deployment)) {
	controltest.Change(p, "default", "web", f)
}

func setImage(p *controltest.Plane, image string) {
	change(p, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = image })
}

// sets returns the ReplicaSets by the image of their template.
func sets(p *controltest.Plane) map[string]*appsv1.ReplicaSet {
	found := map[string]*appsv1.ReplicaSet{}
	for _, rs := range controltest.List[*appsv1.ReplicaSet](p) {
		found[rs.Spec.Template.Spec.Containers[0].Image] = rs
	}
	return found
}

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return appsv1.DeploymentCondition{}
}

func TestFirstRollout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Start()
		made := web(3)
		made.Annotations = map[string]string{"note": "x", corev1.LastAppliedConfigAnnotation: "{}"}
		controltest.Create(p, made)
		settle()
		d := get(p)
		s := d.Status
		if s.Replicas != 3 || s.UpdatedReplicas != 3 || s.ReadyReplicas != 3 || s.AvailableReplicas != 3 || s.UnavailableReplicas != 0 ||
			s.ObservedGeneration != 1 || d.Generation != 1 || s.TerminatingReplicas == nil || *s.TerminatingReplicas != 0 {
			t.Errorf("got generation %d, status %+v", d.Generation, s)
		}
		if d.Annotations[revision] != "1" {
			t.Errorf("got annotations %v", d.Annotations)
		}
		if c := condition(d, appsv1.DeploymentAvailable); c.Status != corev1.ConditionTrue || c.Reason != "MinimumReplicasAvailable" || c.Message != "Deployment has minimum availability." {
			t.Errorf("got condition Available %+v", c)
		}
		rs := sets(p)["web:1"]
		c := condition(d, appsv1.DeploymentProgressing)
		if c.Status != corev1.ConditionTrue || c.Reason != "NewReplicaSetAvailable" || c.Message != fmt.Sprintf("ReplicaSet %q has successfully progressed.", rs.Name) {
			t.Errorf("got condition Progressing %+v", c)
		}
		hash := rs.Labels["pod-template-hash"]
		if hash == "" || rs.Name != "web-"+hash || rs.Spec.Selector.MatchLabels["pod-template-hash"] != hash || rs.Spec.Template.Labels["pod-template-hash"] != hash {
			t.Errorf("got ReplicaSet %s, hash %q", rs.Name, hash)
		}
		if a := rs.Annotations; a[revision] != "1" || a[desired] != "3" || a[most] != "4" || a["note"] != "x" || a[corev1.LastAppliedConfigAnnotation] != "" {
			t.Errorf("got annotations %v", a)
		}
		if !metav1.IsControlledBy(rs, d) {
			t.Errorf("got owners %v", rs.OwnerReferences)
		}
		if events := p.Events("ScalingReplicaSet"); len(events) != 1 || events[0] != fmt.Sprintf("Scaled up replica set %s from 0 to 3", rs.Name) {
			t.Errorf("got events %q", events)
		}
	})
}

func TestRollingUpdateAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Start()
		controltest.Create(p, web(4))
		settle()
		setImage(p, "web:2")
		settle()
		found := sets(p)
		if *found["web:1"].Spec.Replicas != 0 || *found["web:2"].Spec.Replicas != 4 {
			t.Fatalf("got sizes %d and %d", *found["web:1"].Spec.Replicas, *found["web:2"].Spec.Replicas)
		}
		if d := get(p); d.Annotations[revision] != "2" || d.Status.UpdatedReplicas != 4 || d.Status.Replicas != 4 {
			t.Errorf("after the update: got %v %+v", d.Annotations, d.Status)
		}
		events := p.Events("ScalingReplicaSet")
		if want := fmt.Sprintf("Scaled up replica set %s from 0 to 1", found["web:2"].Name); !slices.Contains(events, want) {
			t.Errorf("got events %q, want one to be %q", events, want)
		}
		if want := fmt.Sprintf("Scaled down replica set %s from 4 to 3", found["web:1"].Name); !slices.Contains(events, want) {
			t.Errorf("got events %q, want one to be %q", events, want)
		}

		// kubectl rollout undo restores the old template.
		setImage(p, "web:1")
		settle()
		back := sets(p)
		if len(back) != 2 || back["web:1"].UID != found["web:1"].UID {
			t.Fatal("the old ReplicaSet was not used again")
		}
		if *back["web:1"].Spec.Replicas != 4 || *back["web:2"].Spec.Replicas != 0 {
			t.Errorf("got sizes %d and %d", *back["web:1"].Spec.Replicas, *back["web:2"].Spec.Replicas)
		}
		if a := back["web:1"].Annotations; a[revision] != "3" || a[history] != "1" {
			t.Errorf("got annotations %v", a)
		}
		if d := get(p); d.Annotations[revision] != "3" {
			t.Errorf("got revision %s", d.Annotations[revision])
		}
	})
}

func TestHistoryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Start()
		d := web(1)
		limit := int32(2)
		d.Spec.RevisionHistoryLimit = &limit
		controltest.Create(p, d)
		for i := range 6 {
			settle()
			setImage(p, fmt.Sprintf("web:%d", i+2))
		}
		settle()
		found := sets(p)
		if len(found) != 3 || found["web:7"] == nil || found["web:6"] == nil || found["web:5"] == nil {
			t.Errorf("got %d ReplicaSets left", len(found))
		}
	})
}

func TestScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Start()
		controltest.Create(p, web(2))
		settle()
		change(p, func(d *appsv1.Deployment) { *d.Spec.Replicas = 5 })
		settle()
		rs := sets(p)["web:1"]
		if *rs.Spec.Replicas != 5 || rs.Annotations[desired] != "5" || rs.Annotations[most] != "7" {
			t.Errorf("got size %d, annotations %v", *rs.Spec.Replicas, rs.Annotations)
		}
		if d := get(p); d.Annotations[revision] != "1" || d.Status.AvailableReplicas != 5 {
			t.Errorf("%v %+v", d.Annotations, d.Status)
		}
		change(p, func(d *appsv1.Deployment) { *d.Spec.Replicas = 0 })
		settle()
		if pods := controltest.List[*corev1.Pod](p); len(pods) != 0 {
			t.Errorf("got %d pods left", len(pods))
		}
	})
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Start()
		controltest.Create(p, web(2))
		settle()
		change(p, func(d *appsv1.Deployment) { d.Spec.Paused = true })
		settle()
		if c := condition(get(p), appsv1.DeploymentProgressing); c.Reason != "DeploymentPaused" || c.Status != corev1.ConditionUnknown {
			t.Errorf("got condition Progressing %+v", c)
		}
		setImage(p, "web:2")
		change(p, func(d *appsv1.Deployment) { *d.Spec.Replicas = 3 })
		settle()
		found := sets(p)
		if len(found) != 1 || *found["web:1"].Spec.Replicas != 3 {
			t.Fatalf("while paused: got %d ReplicaSets, size %d", len(found), *found["web:1"].Spec.Replicas)
		}
		change(p, func(d *appsv1.Deployment) { d.Spec.Paused = false })
		settle()
		if found = sets(p); found["web:2"] == nil || *found["web:2"].Spec.Replicas != 3 {
			t.Error("no rollout after the pause")
		}
		if c := condition(get(p), appsv1.DeploymentProgressing); c.Reason != "NewReplicaSetAvailable" {
			t.Errorf("got condition Progressing %+v", c)
		}
	})
}

func TestRecreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		var both atomic.Bool
		p.Fail(func(call client.Call) error {
			if call.Verb != "create" || call.Kind.Resource != "pods" {
				return nil
			}
			image := call.Body.(*corev1.Pod).Spec.Containers[0].Image
			for _, pod := range controltest.List[*corev1.Pod](p) {
				if pod.Spec.Containers[0].Image != image {
					both.Store(true)
				}
			}
			return nil
		})
		p.Start()
		d := web(3)
		d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
		controltest.Create(p, d)
		settle()
		// One old pod is held back: no new pod may start before it is gone.
		held := controltest.List[*corev1.Pod](p)[0].Name
		controltest.Change(p, "default", held, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hold"} })
		setImage(p, "web:2")
		settle()
		if pods := controltest.List[*corev1.Pod](p); len(pods) != 1 || pods[0].Name != held {
			t.Fatalf("got %d pods while an old one terminates, want 1", len(pods))
		}
		controltest.Change(p, "default", held, func(pod *corev1.Pod) { pod.Finalizers = nil })
		settle()
		if got := get(p).Status; got.UpdatedReplicas != 3 || got.AvailableReplicas != 3 {
			t.Errorf("got status %+v", got)
		}
		if both.Load() {
			t.Error("a new pod was created before the old ones were gone")
		}
	})
}

func TestProgressDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, false)
		p.Start()
		d := web(1)
		seconds := int32(60)
		d.Spec.ProgressDeadlineSeconds = &seconds
		controltest.Create(p, d)
		time.Sleep(50 * time.Second)
		if c := condition(get(p), appsv1.DeploymentProgressing); c.Status != corev1.ConditionTrue {
			t.Errorf("after 50 s: got %+v", c)
		}
		time.Sleep(15 * time.Second)
		c := condition(get(p), appsv1.DeploymentProgressing)
		if c.Status != corev1.ConditionFalse || c.Reason != "ProgressDeadlineExceeded" || !strings.HasSuffix(c.Message, "has timed out progressing.") {
			t.Errorf("after 65 s: got %+v", c)
		}
		for _, pod := range controltest.List[*corev1.Pod](p) {
			controltest.MarkReady(p, "default", pod.Name, true)
		}
		settle()
		if c := condition(get(p), appsv1.DeploymentProgressing); c.Reason != "NewReplicaSetAvailable" {
			t.Errorf("after all: got %+v", c)
		}
	})
}

func TestABadUpdateLeavesTheOldPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, false)
		p.Start()
		controltest.Create(p, web(4))
		settle()
		for _, pod := range controltest.List[*corev1.Pod](p) {
			controltest.MarkReady(p, "default", pod.Name, true)
		}
		settle()
		setImage(p, "web:bad")
		settle()
		found := sets(p)
		if *found["web:1"].Spec.Replicas != 3 || *found["web:bad"].Spec.Replicas != 2 {
			t.Errorf("got sizes %d and %d, want 3 and 2", *found["web:1"].Spec.Replicas, *found["web:bad"].Spec.Replicas)
		}
		if c := condition(get(p), appsv1.DeploymentAvailable); c.Status != corev1.ConditionTrue {
			t.Errorf("got condition Available %+v", c)
		}
		// A third template: the bad pods, which are not available, go first.
		setImage(p, "web:3")
		settle()
		found = sets(p)
		if *found["web:1"].Spec.Replicas != 3 || *found["web:bad"].Spec.Replicas != 0 || *found["web:3"].Spec.Replicas != 2 {
			t.Errorf("got sizes %d, %d and %d", *found["web:1"].Spec.Replicas, *found["web:bad"].Spec.Replicas, *found["web:3"].Spec.Replicas)
		}
	})
}

func TestScaleWhileRolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, false)
		p.Start()
		d := web(10)
		three, two := intstr.FromInt32(3), intstr.FromInt32(2)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &three, MaxUnavailable: &two}
		controltest.Create(p, d)
		settle()
		for _, pod := range controltest.List[*corev1.Pod](p) {
			controltest.MarkReady(p, "default", pod.Name, true)
		}
		settle()
		setImage(p, "web:2")
		settle() // 8 old, 5 new: Kubernetes' own example of proportional scaling.
		change(p, func(d *appsv1.Deployment) { *d.Spec.Replicas = 15 })
		settle()
		found := sets(p)
		if *found["web:1"].Spec.Replicas != 11 || *found["web:2"].Spec.Replicas != 7 {
			t.Errorf("got sizes %d and %d, want 11 and 7", *found["web:1"].Spec.Replicas, *found["web:2"].Spec.Replicas)
		}
	})
}

func TestHashCollision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Start()
		controltest.Create(p, web(1))
		settle()
		name := sets(p)["web:1"].Name
		// Another Deployment's ReplicaSet takes the name while this one's is gone.
		p.Remove(get(p))
		settle()
		taken := controltest.Get[*appsv1.ReplicaSet](p, "default", name)
		p.Remove(taken)
		taken.OwnerReferences, taken.UID = nil, "another"
		taken.Spec.Template.Spec.Containers[0].Image = "other"
		taken.Labels, taken.Spec.Template.Labels = nil, map[string]string{"app": "other"}
		taken.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
		p.Load(taken)
		controltest.Create(p, web(1))
		settle()
		d := get(p)
		if d.Status.CollisionCount == nil || *d.Status.CollisionCount != 1 {
			t.Fatalf("got collisions %v", d.Status.CollisionCount)
		}
		if rs := sets(p)["web:1"]; rs == nil || rs.Name == name {
			t.Errorf("got ReplicaSet %v", rs)
		}
	})
}

func TestAdoptsAndReleasesReplicaSets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Start()
		controltest.Create(p, web(2))
		settle()
		rs := sets(p)["web:1"]
		p.Remove(get(p))
		rs = controltest.Change(p, "default", rs.Name, func(rs *appsv1.ReplicaSet) { rs.OwnerReferences = nil })
		d := controltest.Create(p, web(2))
		settle()
		adopted := sets(p)["web:1"]
		if adopted.UID != rs.UID || !metav1.IsControlledBy(adopted, d) {
			t.Fatalf("got owners %v", adopted.OwnerReferences)
		}
		if len(controltest.List[*appsv1.ReplicaSet](p)) != 1 {
			t.Error("a second ReplicaSet was created")
		}
		controltest.Change(p, "default", rs.Name, func(rs *appsv1.ReplicaSet) { rs.Labels = map[string]string{"app": "mine"} })
		settle()
		if released := controltest.Get[*appsv1.ReplicaSet](p, "default", rs.Name); len(released.OwnerReferences) != 0 {
			t.Errorf("got owners %v", released.OwnerReferences)
		}
	})
}

func TestFailureToCreateAReplicaSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Fail(func(call client.Call) error {
			if call.Verb == "create" && call.Kind.Resource == "replicasets" {
				return apierrors.NewForbidden(call.Kind.GroupResource(), "x", errors.New("exceeded quota"))
			}
			return nil
		})
		p.Start()
		controltest.Create(p, web(1))
		settle()
		c := condition(get(p), appsv1.DeploymentProgressing)
		if c.Status != corev1.ConditionFalse || c.Reason != "ReplicaSetCreateError" || !strings.Contains(c.Message, "exceeded quota") {
			t.Errorf("got condition Progressing %+v", c)
		}
		if len(p.Events("ReplicaSetCreateError")) == 0 {
			t.Error("the failure was not recorded as an Event")
		}
	})
}

func TestFailureToCreatePodsIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Fail(func(call client.Call) error {
			if call.Verb == "create" && call.Kind.Resource == "pods" {
				return apierrors.NewForbidden(call.Kind.GroupResource(), "x", errors.New("exceeded quota"))
			}
			return nil
		})
		p.Start()
		controltest.Create(p, web(1))
		settle()
		c := condition(get(p), appsv1.DeploymentReplicaFailure)
		if c.Status != corev1.ConditionTrue || c.Reason != "FailedCreate" || !strings.Contains(c.Message, "exceeded quota") {
			t.Errorf("got failure condition %+v", c)
		}
	})
}

func TestASelectorOfEverythingIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		p.Start()
		d := web(1)
		d.Spec.Selector = &metav1.LabelSelector{}
		controltest.Create(p, d)
		settle()
		if len(p.Events("SelectingAll")) == 0 || len(controltest.List[*appsv1.ReplicaSet](p)) != 0 || get(p).Status.ObservedGeneration != 1 {
			t.Error("a selector that matches everything was not refused")
		}
	})
}

func TestConflictsAreNoFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plane(t, true)
		var n atomic.Int32
		p.Fail(func(call client.Call) error {
			if call.Verb == "update" && call.Kind.Group == "apps" && n.Add(1)%2 == 1 {
				return apierrors.NewConflict(call.Kind.GroupResource(), call.Name, errors.New("the object has been modified"))
			}
			return nil
		})
		p.Start()
		controltest.Create(p, web(3))
		time.Sleep(time.Minute)
		for {
			d := get(p)
			d.Spec.Template.Spec.Containers[0].Image = "web:2"
			_, err := client.Of[*appsv1.Deployment](p.Client).Update(t.Context(), d, metav1.UpdateOptions{})
			if err == nil {
				break
			}
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := get(p).Status; got.UpdatedReplicas != 3 || got.Replicas != 3 || got.AvailableReplicas != 3 {
			t.Errorf("got status %+v", got)
		}
	})
}
