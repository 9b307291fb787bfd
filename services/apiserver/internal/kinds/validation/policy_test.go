package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestPodDisruptionBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		spec policyv1.PodDisruptionBudgetSpec
		want []string
	}{
		"empty":      {},
		"a number":   {spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(3)), UnhealthyPodEvictionPolicy: new(policyv1.AlwaysAllow)}},
		"a part":     {spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString("100%"))}},
		"both":       {spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), MaxUnavailable: new(intstr.FromInt32(1))}, want: []string{`spec: Invalid value: {"minAvailable":1,"maxUnavailable":1}: minAvailable and maxUnavailable cannot be both set`}},
		"below zero": {spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(-1))}, want: []string{"spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"}},
		"no part": {
			spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromString("half"))},
			want: []string{`spec.maxUnavailable: Invalid value: "half": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`},
		},
		"more than all": {spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromString("101%"))}, want: []string{`spec.minAvailable: Invalid value: "101%": must not be greater than 100%`}},
		"a bad selector": {
			spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}}},
			want: []string{`spec.selector.matchExpressions[0].operator: Invalid value: "Near": not a valid selector operator`},
		},
		"an unknown policy": {
			spec: policyv1.PodDisruptionBudgetSpec{UnhealthyPodEvictionPolicy: new(policyv1.UnhealthyPodEvictionPolicyType("Never"))},
			want: []string{`spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", "IfHealthyBudget"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			errortest.Exactly(t, PodDisruptionBudget(&policyv1.PodDisruptionBudget{ObjectMeta: meta(), Spec: tc.spec}), tc.want...)
		})
	}
	old := &policyv1.PodDisruptionBudget{ObjectMeta: meta(), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"-"}}}},
	}}
	if len(PodDisruptionBudget(old)) == 0 {
		t.Error("a malformed value was accepted")
	}
	errortest.Exactly(t, PodDisruptionBudgetUpdate(old, old))
	old.Status = policyv1.PodDisruptionBudgetStatus{
		DisruptionsAllowed: -1, CurrentHealthy: -2, DesiredHealthy: -3, ExpectedPods: -4, Conditions: []metav1.Condition{{Type: "x", Status: "True", Reason: "Y"}},
	}
	errortest.Exactly(t, PodDisruptionBudgetStatus(old, old),
		"status.conditions[0].lastTransitionTime: Required value",
		"status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0",
		"status.currentHealthy: Invalid value: -2: must be greater than or equal to 0",
		"status.desiredHealthy: Invalid value: -3: must be greater than or equal to 0",
		"status.expectedPods: Invalid value: -4: must be greater than or equal to 0")
}

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
			errortest.Exactly(t, PriorityClass(&tc.class), tc.want...)
		})
	}
	old := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "x", ResourceVersion: "1"}, Value: 1, PreemptionPolicy: new(corev1.PreemptNever)}
	changed := old.DeepCopy()
	changed.GlobalDefault, changed.Description = true, "d"
	errortest.Exactly(t, PriorityClassUpdate(changed, old))
	changed.Value, changed.PreemptionPolicy = 2, new(corev1.PreemptLowerPriority)
	errortest.Exactly(t, PriorityClassUpdate(changed, old), "value: Forbidden: may not be changed in an update.",
		`preemptionPolicy: Invalid value: "PreemptLowerPriority": field is immutable`)
}
