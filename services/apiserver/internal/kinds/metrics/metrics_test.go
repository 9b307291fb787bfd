package metrics

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func usage(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func TestRows(t *testing.T) {
	names, window := []string{"Name", "cpu", "memory", "Window"}, metav1.Duration{Duration: 15 * time.Second}
	kindtest.Row(t, &kinds.Definition{Columns: NodeMetricsColumns()}, &metricsv1beta1.NodeMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: "n"}, Window: window, Usage: usage("250m", "5Mi"),
	}, names, []any{"n", "250m", "5Mi", "15s"})
	kindtest.Row(t, &kinds.Definition{Columns: PodMetricsColumns()}, &metricsv1beta1.PodMetrics{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Window: window,
		Containers: []metricsv1beta1.ContainerMetrics{{Usage: usage("1500000n", "1Ki")}, {Usage: usage("100m", "3Ki")}},
	}, names, []any{"p", "101500u", "4Ki", "15s"})
	kindtest.Row(t, &kinds.Definition{Columns: PodMetricsColumns()}, &metricsv1beta1.PodMetrics{}, names, []any{"", "0", "0", "0s"})
}
