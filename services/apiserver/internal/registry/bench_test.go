package registry_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// BenchmarkWrites writes pods with and without a record of field owners; the reported bytes are the
// size of a pod in etcd.
func BenchmarkWrites(b *testing.B) {
	w := newWorld(b)
	pods := resource[*corev1.Pod](w)
	number := 0
	for name, how := range map[string]registry.Record{"recorded": registry.RecordWriter, "unrecorded": registry.RecordNobody} {
		b.Run("create/"+name, func(b *testing.B) {
			var size int
			for b.Loop() {
				number++
				created, err := pods.CreateRecording(b.Context(), "default", newPod(fmt.Sprintf("p%d", number)), metav1.CreateOptions{FieldManager: "controller"}, how)
				if err != nil {
					b.Fatal(err)
				}
				size = created.(*corev1.Pod).Size()
			}
			b.ReportMetric(float64(size), "bytes/pod")
		})
		b.Run("status/"+name, func(b *testing.B) {
			number++
			object := fmt.Sprintf("p%d", number)
			if _, err := pods.CreateRecording(b.Context(), "default", newPod(object), metav1.CreateOptions{FieldManager: "controller"}, how); err != nil {
				b.Fatal(err)
			}
			var size int
			for b.Loop() {
				number++
				updated, err := pods.Update(b.Context(), "default", object, func(current scheme.Object) (scheme.Object, error) {
					pod := current.DeepCopyObject().(*corev1.Pod)
					pod.Status.Phase, pod.Status.Message = corev1.PodRunning, fmt.Sprint(number)
					pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
					return pod, nil
				}, registry.UpdateOptions{Subresource: "status", FieldManager: "kubelet"}.Recording(how))
				if err != nil {
					b.Fatal(err)
				}
				size = updated.(*corev1.Pod).Size()
			}
			b.ReportMetric(float64(size), "bytes/pod")
		})
	}
}
