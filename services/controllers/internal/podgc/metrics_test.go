package podgc

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// TestMetrics checks that deletions are counted by namespace and reason, and faults besides.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		registry := prometheus.NewRegistry()
		p.Config.Registerer = registry
		p.Fail(func(call client.Call) error {
			if call.Verb == "delete" && call.Name == "stays" {
				return errors.New("not now")
			}
			return nil
		})
		p.Declare(func(d controller.Deps) *controller.Spec { return declare(d, 1) })
		p.Start()
		old, older := pod("old", "a", corev1.PodSucceeded), pod("stays", "a", corev1.PodFailed)
		older.Status.Reason = "Evicted"
		p.Load(node("a", corev1.ConditionTrue), node("out", corev1.ConditionFalse, corev1.TaintNodeOutOfService), old, older,
			ending(pod("unscheduled", "", corev1.PodPending)), ending(pod("out", "out", corev1.PodRunning)))
		time.Sleep(period + time.Second)
		got := map[string]string{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			var series []string
			for _, m := range family.GetMetric() {
				text := ""
				for _, label := range m.GetLabel() {
					text += label.GetValue() + " "
				}
				series = append(series, fmt.Sprint(text, m.GetCounter().GetValue() > 0))
			}
			got[family.GetName()] = fmt.Sprint(slices.Sorted(slices.Values(series)))
		}
		for name, want := range map[string]string{
			"pod_gc_collector_force_delete_pods_total":       "[default out-of-service true default terminated true default unscheduled true]",
			"pod_gc_collector_force_delete_pod_errors_total": "[default terminated true]",
		} {
			if got[name] != want {
				t.Errorf("%s is %s, want %s", name, got[name], want)
			}
		}
	})
}
