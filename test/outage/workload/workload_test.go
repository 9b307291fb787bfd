package workload

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func set(uid types.UID, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: string(uid), UID: uid}, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas}}
}

func pod(uid, owner types.UID) *corev1.Pod {
	controller := true
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: string(uid), UID: uid, OwnerReferences: []metav1.OwnerReference{{UID: owner, Controller: &controller}},
	}}
}

func ending(p *corev1.Pod) *corev1.Pod {
	p.DeletionTimestamp = &metav1.Time{}
	return p
}

func TestCensus(t *testing.T) {
	c := newCensus()
	pods, sets := view{c, true}, view{c, false}
	apply := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	// A pod may be seen before the replica set that requested it.
	apply(pods.Add(pod("a", "s")))
	apply(sets.Add(set("s", 1)))
	apply(pods.Update(ending(pod("a", "s"))))
	apply(pods.Add(pod("b", "s")))
	if err := c.check(); err != nil {
		t.Errorf("with one pod after the other: %v", err)
	}
	apply(sets.Update(set("s", 2)))
	apply(pods.Add(pod("c", "s")))
	apply(sets.Update(set("s", 0)))
	apply(pods.Delete(pod("b", "s")))
	apply(pods.Add(pod("d", "s")))
	apply(sets.Replace([]any{set("s", 1)}, "1"))
	if err := c.check(); err != nil {
		t.Errorf("with two pods requested: %v", err)
	}
	apply(pods.Replace([]any{pod("d", "s"), pod("e", "s")}, "2"))
	if err := c.check(); err != nil {
		t.Errorf("with a list in which another pod is gone: %v", err)
	}
	apply(sets.Replace([]any{set("s", 1)}, "3"))
	apply(pods.Add(pod("f", "s")))
	if err := c.check(); err == nil {
		t.Error("three pods at once are not found")
	}
	if err := pods.Add(&corev1.Node{}); err == nil {
		t.Error("a node is counted")
	}
}

func TestSettled(t *testing.T) {
	two := int32(2)
	deployment := appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "d", Generation: 3}, Spec: appsv1.DeploymentSpec{Replicas: &two},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 3, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2},
	}
	late := deployment
	late.Status.ObservedGeneration = 2
	short := deployment
	short.Status.AvailableReplicas = 1
	failed := pod("b", "s")
	failed.Status.Phase = corev1.PodFailed
	for _, test := range []struct {
		name       string
		deployment appsv1.Deployment
		pods       []corev1.Pod
		good       bool
	}{
		{"as requested", deployment, []corev1.Pod{*pod("a", "s"), *pod("b", "s")}, true},
		{"not observed yet", late, []corev1.Pod{*pod("a", "s"), *pod("b", "s")}, false},
		{"not available", short, []corev1.Pod{*pod("a", "s"), *pod("b", "s")}, false},
		{"too few", deployment, []corev1.Pod{*pod("a", "s")}, false},
		{"too many", deployment, []corev1.Pod{*pod("a", "s"), *pod("b", "s"), *pod("c", "s")}, false},
		{"one terminating", deployment, []corev1.Pod{*pod("a", "s"), *pod("b", "s"), *ending(pod("c", "s"))}, false},
		{"one failed", deployment, []corev1.Pod{*pod("a", "s"), *failed}, false},
		{"one failed and replaced", deployment, []corev1.Pod{*pod("a", "s"), *pod("b", "s"), *failed}, true},
		{"one orphan", deployment, []corev1.Pod{*pod("a", "s"), *pod("b", "s"), *pod("c", "gone")}, false},
	} {
		err := settled([]appsv1.Deployment{test.deployment}, []appsv1.ReplicaSet{*set("s", 2)}, test.pods)
		if (err == nil) != test.good {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
