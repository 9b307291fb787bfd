package replicaset

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func replication(name string, replicas int32) *corev1.ReplicationController {
	like := set(name, replicas)
	return &corev1.ReplicationController{
		ObjectMeta: like.ObjectMeta,
		Spec: corev1.ReplicationControllerSpec{
			Replicas: like.Spec.Replicas, Selector: like.Spec.Selector.MatchLabels, Template: &like.Spec.Template,
		},
	}
}

// replicationPlane runs the controller of ReplicationControllers, inside a bubble.
func replicationPlane(t *testing.T) *controltest.Plane {
	t.Helper()
	p := controltest.New(t)
	p.Allow("get list watch update /replicationcontrollers", "update /replicationcontrollers/status",
		"list watch patch create delete /pods", controltest.Events)
	p.Declare(NewReplication)
	return p
}

func replicationStatus(p *controltest.Plane) corev1.ReplicationControllerStatus {
	return controltest.Get[*corev1.ReplicationController](p, "default", "web").Status
}

// TestAReplicationControllerScales follows one through its life: its pods and their owner, its status, its
// Events, a scale-down and strays.
func TestAReplicationControllerScales(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := replicationPlane(t)
		p.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}})
		p.Start()
		rc := controltest.Create(p, replication("web", 3))
		settle()
		pods := controltest.List[*corev1.Pod](p)
		if len(pods) != 3 {
			t.Fatalf("got %d pods, want the stray one and 2", len(pods))
		}
		for _, pod := range pods {
			if ref := metav1.GetControllerOf(pod); ref == nil || ref.UID != rc.UID || ref.APIVersion != "v1" || ref.Kind != "ReplicationController" {
				t.Errorf("got owner %+v", ref)
			}
			controltest.MarkReady(p, "default", pod.Name, true)
		}
		settle()
		want := corev1.ReplicationControllerStatus{Replicas: 3, FullyLabeledReplicas: 3, ReadyReplicas: 3, AvailableReplicas: 3, ObservedGeneration: 1}
		if got := replicationStatus(p); got.String() != want.String() {
			t.Errorf("got status %+v", got)
		}
		for _, event := range controltest.List[*corev1.Event](p) {
			if event.Source.Component != "replication-controller" || event.InvolvedObject.Kind != "ReplicationController" {
				t.Errorf("got an Event of %s about a %s", event.Source.Component, event.InvolvedObject.Kind)
			}
		}
		if got := p.Events("SuccessfulCreate"); len(got) != 2 {
			t.Errorf("got events %q", got)
		}
		controltest.Change(p, "default", "web", func(rc *corev1.ReplicationController) { *rc.Spec.Replicas = 1 })
		settle()
		if n := len(controltest.List[*corev1.Pod](p)); n != 1 {
			t.Errorf("got %d pods after the scale-down", n)
		}
		if got := replicationStatus(p); got.Replicas != 1 || got.ObservedGeneration != 2 {
			t.Errorf("got status %+v after the scale-down", got)
		}
	})
}

// TestAReplicationControllerThatCannotCreate checks its condition.
func TestAReplicationControllerThatCannotCreate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := replicationPlane(t)
		var refuse atomic.Bool
		refuse.Store(true)
		p.Fail(func(call client.Call) error {
			if refuse.Load() && call.Verb == "create" && call.Kind.Resource == "pods" {
				return apierrors.NewForbidden(call.Kind.GroupResource(), "", errors.New("exceeded quota"))
			}
			return nil
		})
		p.Start()
		controltest.Create(p, replication("web", 2))
		settle()
		got := replicationStatus(p).Conditions
		if len(got) != 1 || got[0].Type != corev1.ReplicationControllerReplicaFailure || got[0].Status != corev1.ConditionTrue ||
			got[0].Reason != "FailedCreate" || !strings.Contains(got[0].Message, "exceeded quota") || got[0].LastTransitionTime.IsZero() {
			t.Errorf("got conditions %+v", got)
		}
		refuse.Store(false)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := replicationStatus(p); len(got.Conditions) != 0 || got.Replicas != 2 {
			t.Errorf("got status %+v", got)
		}
	})
}

// TestReplicationControllersAndReplicaSetsShareNothing gives both the same selector.
func TestReplicationControllersAndReplicaSetsShareNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Declare(New)
		p.Declare(NewReplication)
		p.Start()
		rs, rc := controltest.Create(p, set("web", 2)), controltest.Create(p, replication("web", 3))
		settle()
		owned := map[string]int{}
		for _, pod := range controltest.List[*corev1.Pod](p) {
			owned[string(metav1.GetControllerOf(pod).UID)]++
		}
		if len(owned) != 2 || owned[string(rs.UID)] != 2 || owned[string(rc.UID)] != 3 {
			t.Errorf("pods by owner: %v", owned)
		}
		if got := controltest.Get[*appsv1.ReplicaSet](p, "default", "web").Status; got.Replicas != 2 {
			t.Errorf("got status %+v of the ReplicaSet", got)
		}
	})
}

func TestAReplicationControllerWithoutASelectorSelectsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := replicationPlane(t)
		p.Load(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stray", Labels: map[string]string{"app": "web"}}})
		rc := replication("web", 0)
		rc.Spec.Selector = nil
		p.Load(rc)
		p.Start()
		settle()
		if pods := controltest.List[*corev1.Pod](p); len(pods) != 1 || len(pods[0].OwnerReferences) > 0 {
			t.Errorf("got pods %+v", pods)
		}
	})
}
