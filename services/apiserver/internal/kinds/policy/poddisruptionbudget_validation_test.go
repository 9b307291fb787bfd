package policy

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
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
			errortest.Exactly(t, validatePodDisruptionBudget(&policyv1.PodDisruptionBudget{ObjectMeta: meta(), Spec: tc.spec}), tc.want...)
		})
	}
	old := &policyv1.PodDisruptionBudget{ObjectMeta: meta(), Spec: policyv1.PodDisruptionBudgetSpec{
		Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"-"}}}},
	}}
	if len(validatePodDisruptionBudget(old)) == 0 {
		t.Error("a malformed value was accepted")
	}
	errortest.Exactly(t, validatePodDisruptionBudgetUpdate(old, old))
	old.Status = policyv1.PodDisruptionBudgetStatus{
		DisruptionsAllowed: -1, CurrentHealthy: -2, DesiredHealthy: -3, ExpectedPods: -4, Conditions: []metav1.Condition{{Type: "x", Status: "True", Reason: "Y"}},
	}
	errortest.Exactly(t, validatePodDisruptionBudgetStatus(old, old),
		"status.conditions[0].lastTransitionTime: Required value",
		"status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0",
		"status.currentHealthy: Invalid value: -2: must be greater than or equal to 0",
		"status.desiredHealthy: Invalid value: -3: must be greater than or equal to 0",
		"status.expectedPods: Invalid value: -4: must be greater than or equal to 0")
}

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", Namespace: "default"} }
