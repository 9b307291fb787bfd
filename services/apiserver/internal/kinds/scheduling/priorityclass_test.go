package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

func TestDefaultPriorityClass(t *testing.T) {
	class := &schedulingv1.PriorityClass{}
	PriorityClass().Default(class)
	if PriorityClass().PrepareForCreate(class); *class.PreemptionPolicy != corev1.PreemptLowerPriority || class.Generation != 1 {
		t.Errorf("got priority class %+v", class)
	}
}
