package scheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestPriorityClass(t *testing.T) {
	for name, tc := range map[string]struct {
		class schedulingv1.PriorityClass
		want  []string
	}{
		"high":           {class: schedulingv1.PriorityClass{Value: 1000000000}},
		"low":            {class: schedulingv1.PriorityClass{Value: -2000000000, PreemptionPolicy: new(corev1.PreemptNever)}},
		"the system's":   {class: schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2000001000}},
		"too high":       {class: schedulingv1.PriorityClass{Value: 1000000001}, want: []string{"value: Forbidden: maximum allowed value of a user defined priority is 1000000000"}},
		"unknown policy": {class: schedulingv1.PriorityClass{PreemptionPolicy: new(corev1.PreemptionPolicy("Ask"))}, want: []string{`preemptionPolicy: Unsupported value: "Ask": supported values: "PreemptLowerPriority", "Never"`}},
		"no policy":      {class: schedulingv1.PriorityClass{PreemptionPolicy: new(corev1.PreemptionPolicy(""))}, want: []string{"preemptionPolicy: Required value"}},
		"not the system's": {
			class: schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-mine"}},
			want:  []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class"},
		},
		"another value": {
			class: schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-cluster-critical"}, Value: 1},
			want:  []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-cluster-critical PriorityClass must be 2000000000"},
		},
		"for all": {
			class: schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "system-cluster-critical"}, Value: 2000000000, GlobalDefault: true},
			want:  []string{"metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: globalDefault of system-cluster-critical PriorityClass must be false"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.class.Name == "" {
				tc.class.Name = "x"
			}
			errortest.Exactly(t, validatePriorityClass(&tc.class), tc.want...)
		})
	}
	old := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "x", ResourceVersion: "1"}, Value: 1, PreemptionPolicy: new(corev1.PreemptNever)}
	changed := old.DeepCopy()
	changed.GlobalDefault, changed.Description = true, "d"
	errortest.Exactly(t, validatePriorityClassUpdate(changed, old))
	changed.Value, changed.PreemptionPolicy = 2, new(corev1.PreemptLowerPriority)
	errortest.Exactly(t, validatePriorityClassUpdate(changed, old), "value: Forbidden: may not be changed in an update.",
		`preemptionPolicy: Invalid value: "PreemptLowerPriority": field is immutable`)
}
