// Package podeviction deletes pods that taints drive off, and says in their status why (kubernetes,
// pkg/controller/tainteviction and devicetainteviction).
package podeviction

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// Delete deletes a pod after it has received the condition DisruptionTarget with a reason and a message. A
// pod that has since taken the name is spared. An error wraps the API's.
func Delete(ctx context.Context, pods client.Resource[*corev1.Pod], pod *corev1.Pod, reason, message string) error {
	patch, err := mark(pod, reason, message)
	if err != nil {
		return err
	}
	if patch != nil {
		_, err = pods.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return fmt.Errorf("marking pod %s/%s as about to be deleted: %w", pod.Namespace, pod.Name, err)
		}
	}
	err = pods.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// mark returns the patch of a pod's status that adds the condition; nil if the pod has it.
func mark(pod *corev1.Pod, reason, message string) ([]byte, error) {
	condition := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now(),
	}
	if current := podstate.Condition(pod, corev1.DisruptionTarget); current != nil && current.Status == corev1.ConditionTrue {
		if current.Reason == reason && current.Message == message {
			return nil, nil
		}
		condition.LastTransitionTime = current.LastTransitionTime
	}
	return podstate.ConditionPatch(pod, "", condition)
}

// Metrics count the deletions of one controller.
type Metrics struct {
	deletions prometheus.Counter
	latency   prometheus.Histogram
}

// ByNodeTaints returns the metrics of the deletions because of taints of nodes, and registers them unless the
// registerer is nil.
func ByNodeTaints(registerer prometheus.Registerer) Metrics {
	return newMetrics(registerer, "taint_eviction_controller_pod_deletions_total", "taint_eviction_controller_pod_deletion_duration_seconds")
}

// ByDeviceTaints returns the metrics of the deletions because of taints of devices, and registers them unless the
// registerer is nil.
func ByDeviceTaints(registerer prometheus.Registerer) Metrics {
	return newMetrics(registerer,
		"device_taint_eviction_controller_pod_deletions_total", "device_taint_eviction_controller_pod_deletion_duration_seconds")
}

func newMetrics(registerer prometheus.Registerer, deletions, latency string) Metrics {
	m := Metrics{
		deletions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: deletions, Help: "Pods that the controller has deleted.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: latency, Help: "Time from when a pod had to go to its deletion.",
			Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240},
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.deletions, m.latency)
	}
	return m
}

// Deleted counts a pod, and the seconds since it had to go.
func (m Metrics) Deleted(seconds float64) {
	m.deletions.Inc()
	m.latency.Observe(seconds)
}
