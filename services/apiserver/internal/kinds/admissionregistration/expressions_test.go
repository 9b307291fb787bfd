package admissionregistration

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestExpressions checks that each expression compiles, returns what its place wants and reads only what
// is there.
func TestExpressions(t *testing.T) {
	type validating = *admissionregistrationv1.ValidatingAdmissionPolicy
	type mutating = *admissionregistrationv1.MutatingAdmissionPolicy
	conditions := func(text string) []admissionregistrationv1.MatchCondition {
		return []admissionregistrationv1.MatchCondition{{Name: "a", Expression: text}}
	}
	params := &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	for name, tc := range map[string]struct {
		validating func(validating)
		mutating   func(mutating)
		want       []string // the beginning of each error
	}{
		"no expression": {validating: func(p validating) { p.Spec.Validations[0].Expression = "1 +" },
			want: []string{`spec.validations[0].expression: Invalid value: "1 +": compilation failed: ERROR: <input>:1:4: Syntax error`}},
		"another type": {validating: func(p validating) { p.Spec.Validations[0].Expression = "1" },
			want: []string{`spec.validations[0].expression: Invalid value: "1": must evaluate to bool`}},
		"parameters that are not there": {validating: func(p validating) { p.Spec.Validations[0].Expression = "params.a" },
			want: []string{`spec.validations[0].expression: Invalid value: "params.a": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'`}},
		"parameters": {validating: func(p validating) {
			p.Spec.ParamKind, p.Spec.Validations[0].Expression = params, "params.a == 1"
			p.Spec.Validations[0].MessageExpression, p.Spec.MatchConditions = "string(params.a)", conditions("params.b == 2")
		}},
		"an authorizer in a message": {validating: func(p validating) {
			p.Spec.Validations[0].Expression = "authorizer.group('').resource('pods').check('get').allowed()"
			p.Spec.Validations[0].MessageExpression = "authorizer.path('/a').check('get').reason()"
		}, want: []string{`spec.validations[0].messageExpression: Invalid value: "authorizer.path('/a').check('get').reason()": compilation failed`}},
		"a message that is no text": {validating: func(p validating) { p.Spec.Validations[0].MessageExpression = "true" },
			want: []string{`spec.validations[0].messageExpression: Invalid value: "true": must evaluate to string`}},
		"an annotation that is no text": {validating: func(p validating) {
			p.Spec.AuditAnnotations = []admissionregistrationv1.AuditAnnotation{{Key: "a", ValueExpression: " true"}, {Key: "b", ValueExpression: "null"}}
		}, want: []string{`spec.auditAnnotations[0].valueExpression: Invalid value: " true": must evaluate to one of [string null_type]`}},
		"variables": {validating: func(p validating) {
			p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "a", Expression: "1"}, {Name: "b", Expression: "variables.a + 1"}}
			p.Spec.Validations[0].Expression = "variables.b == 2"
		}},
		"variables of another type": {validating: func(p validating) {
			p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "a", Expression: "variables.b"}, {Name: "b", Expression: "1"}}
			p.Spec.Validations[0].Expression = "variables.b == 'a'"
		}, want: []string{
			`spec.variables[0].expression: Invalid value: "variables.b": compilation failed: ERROR: <input>:1:10: undefined field 'b'`,
			`spec.validations[0].expression: Invalid value: "variables.b == 'a'": compilation failed`,
		}},
		"variables in a match condition": {validating: func(p validating) {
			p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "a", Expression: "true"}}
			p.Spec.MatchConditions = conditions(" variables.a ")
		}, want: []string{`spec.matchConditions[0].expression: Invalid value: "variables.a": compilation failed: ERROR: <input>:1:1: undeclared reference`}},
		"an apply configuration": {mutating: func(p mutating) {
			p.Spec.Mutations[0] = admissionregistrationv1.Mutation{PatchType: "ApplyConfiguration",
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: " Object{spec: Object.spec{replicas: 1}} "}}
		}},
		"a patch that is no object": {mutating: func(p mutating) {
			p.Spec.Mutations[0] = admissionregistrationv1.Mutation{PatchType: "ApplyConfiguration",
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: " 1 "}}
		}, want: []string{`spec.mutations[0].applyConfiguration.expression: Invalid value: "1": must evaluate to Object`}},
		"a patch that is no list": {mutating: func(p mutating) { p.Spec.Mutations[0].JSONPatch.Expression = `JSONPatch{op: "a"}` },
			want: []string{`spec.mutations[0].jsonPatch.expression: Invalid value: "JSONPatch{op: \"a\"}": must evaluate to list(JSONPatch)`}},
		"variables of a mutation": {mutating: func(p mutating) {
			p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "a", Expression: "nope"}}
			p.Spec.MatchConditions = conditions("1")
		}, want: []string{
			`spec.variables[0].expression: Invalid value: "nope": compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope'`,
			`spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.validating != nil {
				p := newPolicy()
				tc.validating(p)
				begin(t, newValidator().validatingPolicy(p), tc.want)
				begin(t, newValidator().validatingPolicyUpdate(p, newPolicy()), tc.want)
				return
			}
			p := newMutatingPolicy()
			tc.mutating(p)
			begin(t, newValidator().mutatingPolicy(p), tc.want)
			begin(t, newValidator().mutatingPolicyUpdate(p, newMutatingPolicy()), tc.want)
		})
	}
}

// begin requires exactly one error for each text, which it begins with.
func begin(t *testing.T, errs field.ErrorList, want []string) {
	t.Helper()
	if len(errs) != len(want) {
		t.Fatalf("errors %v, want %q", errs, want)
	}
	for _, text := range want {
		found := false
		for _, err := range errs {
			found = found || strings.HasPrefix(err.Error(), text)
		}
		if !found {
			t.Errorf("errors %v lack %q", errs, text)
		}
	}
}

// TestConditionsOfWebhooks checks that the match conditions of webhooks compile, and that unchanged ones
// are left alone.
func TestConditionsOfWebhooks(t *testing.T) {
	c := newWebhooks("a.example.com")
	c.Webhooks[0].MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "params.a"}}
	const want = `webhooks[0].matchConditions[0].expression: Invalid value: "params.a": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params'`
	begin(t, newValidator().mutatingWebhooks(c), []string{want})
	begin(t, newValidator().validatingWebhooks(asValidating(c)), []string{want})
	begin(t, newValidator().mutatingWebhooksUpdate(c, newWebhooks("a.example.com")), []string{want})
	errortest.Exactly(t, newValidator().mutatingWebhooksUpdate(c.DeepCopy(), c))
	errortest.Exactly(t, newValidator().validatingWebhooksUpdate(asValidating(c), asValidating(c)))
}
