package admissionregistration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", ResourceVersion: "1"} }

func newRule() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{"CREATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}
}

func newMutatingPolicy() *admissionregistrationv1.MutatingAdmissionPolicy {
	p := &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta(), Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints:   onPods(),
		Mutations:          []admissionregistrationv1.Mutation{{PatchType: "JSONPatch", JSONPatch: &admissionregistrationv1.JSONPatch{Expression: `[JSONPatch{op: "test", path: "/a"}]`}}},
		ReinvocationPolicy: "Never",
	}}
	defaultMutatingPolicy(p)
	return p
}

func TestMutatingPolicies(t *testing.T) {
	type policy = *admissionregistrationv1.MutatingAdmissionPolicy
	for name, tc := range map[string]struct {
		change func(policy)
		want   []string
	}{
		"fine": {change: func(policy) {}},
		"deletion": {change: func(p policy) {
			p.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionregistrationv1.OperationType{"DELETE"}
		}, want: []string{`spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`}},
		"no mutations":    {change: func(p policy) { p.Spec.Mutations = nil }, want: []string{"spec.mutations: Required value: mutations must contain at least one item"}},
		"no reinvocation": {change: func(p policy) { p.Spec.ReinvocationPolicy = "" }, want: []string{"spec.reinvocationPolicy: Required value"}},
		"an unknown one":  {change: func(p policy) { p.Spec.ReinvocationPolicy = "Odd" }, want: []string{`spec.reinvocationPolicy: Unsupported value: "Odd": supported values: "IfNeeded", "Never"`}},
		"no type":         {change: func(p policy) { p.Spec.Mutations[0].PatchType = "" }, want: []string{"spec.mutations[0].patchType: Required value"}},
		"an unknown type": {change: func(p policy) { p.Spec.Mutations[0].PatchType = "Odd" }, want: []string{`spec.mutations[0].patchType: Unsupported value: "Odd": supported values: "ApplyConfiguration", "JSONPatch"`}},
		"another type":    {change: func(p policy) { p.Spec.Mutations[0].PatchType = "ApplyConfiguration" }, want: []string{"spec.mutations[0].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration", `spec.mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration`}},
		"the other": {change: func(p policy) {
			p.Spec.Mutations[0] = admissionregistrationv1.Mutation{PatchType: "JSONPatch", ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{}}
		}, want: []string{"spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch", `spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch`}},
		"no expression": {change: func(p policy) { p.Spec.Mutations[0].JSONPatch.Expression = " " }, want: []string{"spec.mutations[0].jsonPatch.expression: Required value"}},
		"no configuration": {change: func(p policy) {
			p.Spec.Mutations[0] = admissionregistrationv1.Mutation{PatchType: "ApplyConfiguration", ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{}}
		}, want: []string{"spec.mutations[0].applyConfiguration.expression: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newMutatingPolicy()
			tc.change(p)
			errortest.Exactly(t, newValidator().mutatingPolicy(p), tc.want...)
			errortest.Exactly(t, newValidator().mutatingPolicyUpdate(p, newMutatingPolicy()), tc.want...)
		})
	}
}
