package agent_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
)

// TestALabelCountsAtOnce: a pod that the scheduler binds by a label which the Node has just got runs, although
// the agent reads its Node only every ten seconds.
func TestALabelCountsAtOnce(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create(newPod("first"))
	w.until("first", "Running", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning })
	node := w.get("first").Spec.NodeName
	if _, err := client.Of[*corev1.Node](w.api).Patch(t.Context(), "", node, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"disk":"ssd"}}}`), metav1.PatchOptions{}, ""); err != nil {
		t.Fatal(err)
	}
	pod := newPod("selecting")
	pod.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	w.create(pod)
	w.until("selecting", "Running or Failed", func(p *corev1.Pod) bool {
		return p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodFailed
	})
	if got := w.get("selecting"); got.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod: %+v", got.Status)
	}
}
