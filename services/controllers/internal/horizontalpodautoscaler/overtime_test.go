package horizontalpodautoscaler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// queued is an external metric that asks for one replica for each 1 of its value.
func queued() autoscalingv2.MetricSpec {
	one := resource.MustParse("1")
	metric := external("1")
	metric.External.Target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &one}
	return metric
}

// TestOverTime checks what comes of a metric that changes: of its policies' rates, and of its windows. A
// reconcile follows every 15 seconds.
func TestOverTime(t *testing.T) {
	const most, least = autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect
	behaves := func(up, down *autoscalingv2.HPAScalingRules) *autoscalingv2.HorizontalPodAutoscalerBehavior {
		return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: up, ScaleDown: down}
	}
	for name, c := range map[string]struct {
		behavior     *autoscalingv2.HorizontalPodAutoscalerBehavior
		current      int32   // 4 if 0
		wanted, want []int32 // by reconcile; the last that is wanted stays
	}{
		"up by pods in a period": {
			behavior: behaves(rulesOf(most, 0, addPods(4, 30)), unlimited(0)),
			wanted:   []int32{20}, want: []int32{8, 8, 12, 12, 16, 16, 20, 20},
		},
		"up by the least of two periods": {
			behavior: behaves(rulesOf(least, 0, addPods(4, 15), addPods(6, 60)), unlimited(0)),
			wanted:   []int32{30}, want: []int32{8, 10, 10, 10, 14, 16, 16, 16, 20},
		},
		"up by the most of two periods": {
			behavior: behaves(rulesOf(most, 0, addPods(1, 15), addPercent(100, 60)), unlimited(0)),
			wanted:   []int32{30}, want: []int32{8, 9, 10, 11, 16, 18, 20, 22, 30},
		},
		"down by a share in a period": {
			behavior: behaves(unlimited(0), rulesOf(most, 0, addPercent(50, 30))),
			current:  32, wanted: []int32{1}, want: []int32{16, 16, 8, 8, 4, 4, 2},
		},
		"down by the least of two periods": {
			behavior: behaves(unlimited(0), rulesOf(least, 0, addPods(3, 15), addPods(4, 45))),
			current:  20, wanted: []int32{1}, want: []int32{17, 16, 16, 13, 12, 12, 9},
		},
		"down from what it was before it rose": {
			behavior: behaves(unlimited(0), rulesOf(most, 0, addPercent(50, 30))),
			wanted:   []int32{32, 1}, want: []int32{32, 2, 2, 1},
		},
		"flapping within both windows": {
			behavior: behaves(unlimited(60), unlimited(60)),
			wanted:   []int32{8, 2, 8, 2, 8, 2, 8}, want: []int32{4, 4, 4, 4, 4, 4, 4, 4, 4, 8},
		},
		"flapping settles below": {
			behavior: behaves(unlimited(60), unlimited(60)),
			wanted:   []int32{8, 2, 8, 2, 8, 2}, want: []int32{4, 4, 4, 4, 4, 4, 4, 4, 2},
		},
		"flapping with a window down only": {
			behavior: behaves(unlimited(0), unlimited(60)),
			wanted:   []int32{8, 2, 6, 2, 2}, want: []int32{8, 8, 8, 8, 6, 6, 2},
		},
		"flapping with a window up only": {
			behavior: behaves(unlimited(60), unlimited(0)),
			wanted:   []int32{8, 2, 6, 8, 9, 9}, want: []int32{4, 2, 2, 2, 2, 6, 8},
		},
		"a peak within the window up": {
			behavior: behaves(unlimited(30), unlimited(0)),
			wanted:   []int32{4, 9, 4, 4}, want: []int32{4, 4, 4, 4, 4},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &meter{}
				p := plane(t, m)
				p.Load(deployment(cmp.Or(c.current, 4)))
				p.Start()
				object := hpa("one", 1, 100, queued())
				object.Spec.Behavior = c.behavior
				settle(time.Second)
				var got []int32
				for i := range c.want {
					m.set(nil, 1000*int64(c.wanted[min(i, len(c.wanted)-1)]))
					if i == 0 {
						p.Load(object)
						settle(time.Second)
					} else {
						settle(15 * time.Second)
					}
					got = append(got, replicas(p))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("got %d replicas, want %d", got, c.want)
				}
			})
		})
	}
}

// TestTolerances checks which changes are too small, up and down, by the options and by an autoscaler's own.
func TestTolerances(t *testing.T) {
	for name, c := range map[string]struct {
		up, down string // of the autoscaler, unless empty
		option   float64
		value    int64 // of 1000
		want     int32
	}{
		"default, within, up":          {value: 1090, want: 10},
		"default, beyond, up":          {value: 1110, want: 12},
		"default, within, down":        {value: 910, want: 10},
		"default, beyond, down":        {value: 890, want: 9},
		"the option, within":           {option: 0.5, value: 1490, want: 10},
		"the option, beyond":           {option: 0.5, value: 1510, want: 16},
		"small up":                     {up: "0.01", value: 1020, want: 11},
		"small up, and still small":    {up: "0.01", value: 1009, want: 10},
		"small up leaves down":         {up: "0.01", value: 910, want: 10},
		"small down":                   {down: "0.01", value: 890, want: 9},
		"small down leaves up":         {down: "0.01", value: 1090, want: 10},
		"large down, within":           {down: "0.5", value: 510, want: 10},
		"large down, beyond":           {down: "0.5", value: 490, want: 5},
		"large down leaves up":         {down: "0.5", value: 1110, want: 12},
		"none up":                      {up: "0", value: 1001, want: 11},
		"own against the option":       {up: "0.2", option: 0.01, value: 1190, want: 10},
		"own leaves the option's down": {up: "0.2", option: 0.01, value: 890, want: 9},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &meter{}
				m.set(nil, c.value)
				p := controltest.New(t)
				options := DefaultOptions()
				if c.option > 0 {
					options.Tolerance = c.option
				}
				p.Declare(func(d controller.Deps) *controller.Spec { return New(d, nil, m, options) })
				p.Load(deployment(10))
				loadPods(p, 10)
				p.Start()
				settle(time.Second)
				object := hpa("one", 1, 100, external("1"))
				object.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: unlimited(0), ScaleDown: unlimited(0)}
				if c.up != "" {
					object.Spec.Behavior.ScaleUp.Tolerance = new(resource.MustParse(c.up))
				}
				if c.down != "" {
					object.Spec.Behavior.ScaleDown.Tolerance = new(resource.MustParse(c.down))
				}
				p.Load(object)
				settle(time.Second)
				if got := replicas(p); got != c.want {
					t.Errorf("got %d replicas, want %d; conditions:\n%s", got, c.want, conditions(p, "one"))
				}
			})
		})
	}
}

// measurements returns "name{labels} value" of metrics, of histograms the number of their observations.
func measurements(t *testing.T, from prometheus.Gatherer) (list []string) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		name, found := strings.CutPrefix(family.GetName(), "horizontal_pod_autoscaler_controller_")
		if !found {
			continue
		}
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+"="+label.GetValue())
			}
			value := metric.GetCounter().GetValue() + metric.GetGauge().GetValue() + float64(metric.GetHistogram().GetSampleCount())
			list = append(list, fmt.Sprintf("%s{%s} %g", name, strings.Join(labels, ","), value))
		}
	}
	return list
}

// TestMetrics checks what the metrics tell of reconciles that scale, that do not, and that fail.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, registry := &meter{}, prometheus.NewRegistry()
		p := controltest.New(t)
		p.Declare(func(d controller.Deps) *controller.Spec {
			d.Registerer = registry
			return New(d, nil, m, Options{})
		})
		p.Load(deployment(4))
		p.Start()
		settle(time.Second)
		object := hpa("one", 1, 100, queued())
		object.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: unlimited(0), ScaleDown: unlimited(0)}
		m.set(nil, 6000)
		p.Load(object)
		settle(time.Second)
		m.set(nil, 3000)
		settle(30 * time.Second) // down, and then nothing
		m.set(errors.New("gone"), 0)
		settle(15 * time.Second)
		odd := hpa("odd", 1, 100, autoscalingv2.MetricSpec{Type: "Odd"})
		odd.Spec.ScaleTargetRef.Name = "other"
		other := deployment(2)
		other.Name, other.Spec.Selector.MatchLabels = "other", map[string]string{"app": "other"}
		p.Load(other)
		settle(time.Second)
		p.Load(odd)
		settle(time.Second)
		// A metric's action compares with the replicas of the last status: after scaling down it is once more down.
		want := []string{
			"desired_replicas{hpa_name=one,namespace=default} 3",
			"metric_computation_duration_seconds{action=none,error=internal,metric_type=External} 1",
			"metric_computation_duration_seconds{action=none,error=spec,metric_type=Odd} 1",
			"metric_computation_duration_seconds{action=scale_down,error=none,metric_type=External} 2",
			"metric_computation_duration_seconds{action=scale_up,error=none,metric_type=External} 1",
			"metric_computation_total{action=none,error=internal,metric_type=External} 1",
			"metric_computation_total{action=none,error=spec,metric_type=Odd} 1",
			"metric_computation_total{action=scale_down,error=none,metric_type=External} 2",
			"metric_computation_total{action=scale_up,error=none,metric_type=External} 1",
			"num_horizontal_pod_autoscalers{} 2",
			"reconciliation_duration_seconds{action=none,error=internal} 1",
			"reconciliation_duration_seconds{action=none,error=none} 1",
			"reconciliation_duration_seconds{action=none,error=spec} 1",
			"reconciliation_duration_seconds{action=scale_down,error=none} 1",
			"reconciliation_duration_seconds{action=scale_up,error=none} 1",
			"reconciliations_total{action=none,error=internal} 1",
			"reconciliations_total{action=none,error=none} 1",
			"reconciliations_total{action=none,error=spec} 1",
			"reconciliations_total{action=scale_down,error=none} 1",
			"reconciliations_total{action=scale_up,error=none} 1",
		}
		if got := measurements(t, registry); !slices.Equal(got, want) {
			t.Errorf("got the metrics\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		p.Remove(object)
		settle(time.Second)
		got := measurements(t, registry)
		if !slices.Contains(got, "num_horizontal_pod_autoscalers{} 1") || strings.HasPrefix(got[0], "desired_replicas") {
			t.Errorf("got the metrics of an autoscaler that is gone\n%s", strings.Join(got, "\n"))
		}
	})
}
