package core

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestDefaultLimitRange(t *testing.T) {
	limits := &corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: "Container", Max: corev1.ResourceList{"cpu": resource.MustParse("2")}, Min: corev1.ResourceList{"memory": resource.MustParse("1Gi")}},
		{Type: "Pod", Max: corev1.ResourceList{"cpu": resource.MustParse("2")}},
	}}}
	s := LimitRange()
	s.Default(limits)
	item := limits.Spec.Limits[0]
	if len(item.Default) != 1 || item.Default.Cpu().String() != "2" || item.DefaultRequest.Cpu().String() != "2" || item.DefaultRequest.Memory().String() != "1Gi" {
		t.Errorf("container: got defaults %v and %v", item.Default, item.DefaultRequest)
	}
	if other := limits.Spec.Limits[1]; other.Default != nil || other.DefaultRequest != nil {
		t.Errorf("pod: got defaults %+v, want none", other)
	}
	if s.PrepareForCreate(limits); limits.Name == "" {
		t.Error("a limit range without a name has no defaults")
	}
}
