// Package metrics has the columns of the kinds of metrics.k8s.io, which are those of metrics-server.
package metrics

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// NodeMetricsColumns are the columns of NodeMetrics.
func NodeMetricsColumns() *columns.Layout {
	return columns.Of(used(), func(m *metricsv1beta1.NodeMetrics, _ time.Time) []any {
		return row(m.Name, m.Window, m.Usage)
	})
}

// PodMetricsColumns are the columns of PodMetrics. A pod uses what its containers use together.
func PodMetricsColumns() *columns.Layout {
	return columns.Of(used(), func(m *metricsv1beta1.PodMetrics, _ time.Time) []any {
		usages := make([]corev1.ResourceList, len(m.Containers))
		for i := range m.Containers {
			usages[i] = m.Containers[i].Usage
		}
		return row(m.Name, m.Window, usages...)
	})
}

// resources are the measured resources, in the order of their columns.
func resources() []corev1.ResourceName {
	return []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}
}

func used() []metav1.TableColumnDefinition {
	definitions := []metav1.TableColumnDefinition{{Name: "Name", Type: "string", Format: "name", Description: "Name of the resource"}}
	for _, name := range resources() {
		definitions = append(definitions, metav1.TableColumnDefinition{Name: string(name), Type: "string", Format: "quantity"})
	}
	return append(definitions, metav1.TableColumnDefinition{Name: "Window", Type: "string", Format: "duration"})
}

func row(name string, window metav1.Duration, usages ...corev1.ResourceList) []any {
	cells := []any{name}
	for _, measured := range resources() {
		var sum resource.Quantity
		for _, usage := range usages {
			sum.Add(usage[measured])
		}
		cells = append(cells, sum.String())
	}
	return append(cells, window.Duration.String())
}
