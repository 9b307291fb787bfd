package autoscaling

import (
	"reflect"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestMetrics(t *testing.T) {
	value := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	resources := func(target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: target}}
	}
	measured := func(now autoscalingv2.MetricValueStatus) autoscalingv2.MetricStatus {
		return autoscalingv2.MetricStatus{Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu", Current: now}}
	}
	cpu := resources(autoscalingv2.MetricTarget{AverageUtilization: new(int32(80))})
	for _, tc := range []struct {
		name     string
		specs    []autoscalingv2.MetricSpec
		statuses []autoscalingv2.MetricStatus
		want     string
	}{
		{"none", nil, nil, columns.None},
		{"cpu", []autoscalingv2.MetricSpec{cpu}, nil, "cpu: <unknown>/80%"},
		{"measured cpu", []autoscalingv2.MetricSpec{cpu}, []autoscalingv2.MetricStatus{measured(autoscalingv2.MetricValueStatus{AverageUtilization: new(int32(50))})}, "cpu: 50%/80%"},
		{"no target", []autoscalingv2.MetricSpec{resources(autoscalingv2.MetricTarget{})}, nil, "cpu: <unknown>/<auto>"},
		{"memory", []autoscalingv2.MetricSpec{resources(autoscalingv2.MetricTarget{AverageValue: value("1Gi")})},
			[]autoscalingv2.MetricStatus{measured(autoscalingv2.MetricValueStatus{AverageValue: value("1Mi")})}, "cpu: 1Mi/1Gi"},
		{"container", []autoscalingv2.MetricSpec{{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: "memory", Target: autoscalingv2.MetricTarget{AverageUtilization: new(int32(3))},
		}}}, nil, "memory: <unknown>/3%"},
		{"pods", []autoscalingv2.MetricSpec{{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: value("9")}}}},
			[]autoscalingv2.MetricStatus{{Pods: &autoscalingv2.PodsMetricStatus{Current: autoscalingv2.MetricValueStatus{AverageValue: value("4")}}}}, "4/9"},
		{"object", []autoscalingv2.MetricSpec{{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{Target: autoscalingv2.MetricTarget{Value: value("9")}}}},
			[]autoscalingv2.MetricStatus{{Object: &autoscalingv2.ObjectMetricStatus{Current: autoscalingv2.MetricValueStatus{Value: value("4")}}}}, "4/9"},
		{"external average", []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: value("9")}}}},
			[]autoscalingv2.MetricStatus{{External: &autoscalingv2.ExternalMetricStatus{Current: autoscalingv2.MetricValueStatus{Value: value("4")}}}}, "<unknown>/9 (avg)"},
		{"many", []autoscalingv2.MetricSpec{cpu, cpu, cpu, cpu}, nil, "cpu: <unknown>/80%, cpu: <unknown>/80% + 2 more..."},
		{"odd", []autoscalingv2.MetricSpec{{Type: "Odd"}}, nil, "<unknown type>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := metricsCell(tc.specs, tc.statuses); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	first := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MaxReplicas: 5, TargetCPUUtilizationPercentage: new(int32(60)),
	}}
	if got, want := horizontalPodAutoscalerV1Columns().Cells(first, kindtest.Now()), []any{"x", "Deployment/web", "cpu: <unknown>/60%", columns.Unset, int64(5), int64(0), columns.Unknown}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	a := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(time.Hour)}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: new(int32(2)), MaxReplicas: 5,
	}, Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 3}}
	if got, want := autoscalerCells(a, kindtest.Now()), []any{"x", "Deployment/web", columns.None, "2", int64(5), int64(3), "60m"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
