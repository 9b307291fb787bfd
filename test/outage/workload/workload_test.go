package workload

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
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
	apply := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	apply(c.listSets(nil))
	// A pod may be seen before the replica set that requested it.
	apply(c.apply(watch.Added, pod("a", "s")))
	apply(c.apply(watch.Added, set("s", 1)))
	apply(c.apply(watch.Modified, ending(pod("a", "s"))))
	apply(c.apply(watch.Added, pod("b", "s")))
	if err := c.check(); err != nil {
		t.Errorf("with one pod after the other: %v", err)
	}
	apply(c.apply(watch.Modified, set("s", 2)))
	apply(c.apply(watch.Added, pod("c", "s")))
	apply(c.apply(watch.Modified, set("s", 0)))
	apply(c.apply(watch.Deleted, pod("b", "s")))
	apply(c.apply(watch.Added, pod("d", "s")))
	if err := c.check(); err != nil {
		t.Errorf("with two pods requested: %v", err)
	}
	apply(c.listPods([]any{pod("d", "s"), pod("e", "s")}))
	if err := c.check(); err != nil {
		t.Errorf("with a list in which another pod is gone: %v", err)
	}
	apply(c.apply(watch.Modified, set("s", 1)))
	apply(c.apply(watch.Added, pod("f", "s")))
	if err := c.check(); err == nil {
		t.Error("three pods at once are not found")
	} else if !strings.Contains(err.Error(), "pod f at ") {
		t.Errorf("got %v, want what was seen of the set", err)
	}
	if err := c.apply(watch.Added, &corev1.Node{}); err == nil {
		t.Error("a node is counted")
	}
}

// TestCensusIsBlind checks that a replica set is not accused whose states may have been missed, and that
// one created later is.
func TestCensusIsBlind(t *testing.T) {
	c := newCensus()
	for _, err := range []error{
		c.listSets([]any{set("old", 1)}), c.listPods([]any{pod("a", "old"), pod("b", "new")}),
		c.apply(watch.Added, pod("c", "old")), c.apply(watch.Added, pod("d", "new")),
		c.listSets([]any{set("old", 1), set("new", 1)}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := c.check(); err != nil {
		t.Errorf("sets are accused whose states were missed: %v", err)
	}
	for _, obj := range []any{set("late", 1), pod("e", "late"), pod("f", "late")} {
		if err := c.apply(watch.Added, obj); err != nil {
			t.Error(err)
		}
	}
	if err := c.check(); err == nil || strings.Contains(err.Error(), "old") || strings.Contains(err.Error(), "new") {
		t.Errorf("got %v, want the set that was created later", err)
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
