package conformance

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// The tests in this file say why no user is hurt by the differences that the README of
// test/upstream/scheduler lists.

func plain(nodes int) *Case {
	c := &Case{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}}
	for i := range nodes {
		c.Nodes = append(c.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", i)},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
			}},
		})
	}
	return c
}

// TestUnreadyNodeIsRefusedAsOnceItIsTainted: a node that is not ready is refused before it has its
// taint, in the same words as afterwards.
func TestUnreadyNodeIsRefusedAsOnceItIsTainted(t *testing.T) {
	for status, key := range map[corev1.ConditionStatus]string{
		corev1.ConditionFalse: corev1.TaintNodeNotReady, corev1.ConditionUnknown: corev1.TaintNodeUnreachable,
	} {
		before, after := plain(2), plain(2)
		before.Nodes[0].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
		after.Nodes[0].Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}}
		ours, later := Ours(before), Ours(after)
		if found := Compare(ours, later); len(found) > 0 || ours.Nodes["n0"].Filter != string(placement.TaintToleration) {
			t.Errorf("%s: %v, got %+v", status, found, ours.Nodes)
		}
	}
}

// TestReasonInThePodIsExplained: the message contains what kube-scheduler's does, and in place of its
// "not found" says that preemption does not help.
func TestReasonInThePodIsExplained(t *testing.T) {
	c := plain(2)
	c.Pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	_, failure := placement.Explain(c.Pod, cluster(c))
	const kubernetes = `0/2 nodes are available: persistentvolumeclaim "data" not found.`
	rest, same := strings.CutPrefix(failure.Error(), kubernetes)
	if !same || rest != " preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling." {
		t.Errorf("got %s", failure)
	}
}

// TestEveryNodeOfALargeClusterIsScored: kube-scheduler stops when it has found enough nodes; here the
// best of all nodes is chosen, wherever it is.
func TestEveryNodeOfALargeClusterIsScored(t *testing.T) {
	for _, best := range []int{0, 250, 499} {
		c := plain(500)
		c.Nodes[best].Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("64")
		node, err := placement.Place(c.Pod, cluster(c), func(int) int { return 0 })
		if err != nil || node.Name != c.Nodes[best].Name {
			t.Errorf("got %v, %v, want %s", node, err, c.Nodes[best].Name)
		}
	}
}

// TestHugeRequestsAreRefused: kube-scheduler takes such requests for negative ones, and fails or
// oversubscribes the node.
func TestHugeRequestsAreRefused(t *testing.T) {
	c := plain(2)
	c.Pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("9223372036854775807")}
	if got := Ours(c).Message; !strings.HasPrefix(got, "0/2 nodes are available: 2 Insufficient cpu.") {
		t.Errorf("got %s", got)
	}
}
