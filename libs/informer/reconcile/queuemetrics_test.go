package reconcile_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/informer/workqueue"
)

// TestQueueMetricsHaveKubernetesNames checks that the provider for Prometheus has Kubernetes' names
// and the label name (item 49 of the checklist).
func TestQueueMetricsHaveKubernetesNames(t *testing.T) {
	registry := prometheus.NewRegistry()
	q := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
		Name: "mine", MetricsProvider: reconcile.QueueMetrics(registry),
	})
	q.Add("a")
	q.AddAfter("b", 0)
	if item, shutdown := q.Get(); item != "a" || shutdown {
		t.Fatalf("Get returned %q, %v", item, shutdown)
	}
	q.Done("a")
	q.ShutDown()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				// To Prometheus, an empty label is the same as no label.
				if is := label.GetName() + "=" + label.GetValue(); is != "name=mine" && (is != "priority=" || family.GetName() != "workqueue_depth") {
					t.Errorf("%s has labels %v", family.GetName(), metric.GetLabel())
				}
			}
			values[family.GetName()] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue() + float64(metric.GetHistogram().GetSampleCount())
		}
	}
	for name, want := range map[string]float64{
		"workqueue_depth": 1, "workqueue_adds_total": 2, "workqueue_retries_total": 1,
		"workqueue_queue_duration_seconds": 1, "workqueue_work_duration_seconds": 1,
		"workqueue_unfinished_work_seconds": 0, "workqueue_longest_running_processor_seconds": 0,
	} {
		if value, ok := values[name]; !ok || value != want {
			t.Errorf("%s is %v (there %v), want %v", name, value, ok, want)
		}
	}
}
