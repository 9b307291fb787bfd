package admissionregistration

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// onPods returns constraints that match the creation of pods.
func onPods() *admissionregistrationv1.MatchResources {
	return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newRule()}}}
}

func newPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta(), Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: onPods(), Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
	}}
	defaultValidatingPolicy(p)
	return p
}

func TestPolicies(t *testing.T) {
	type validating = *admissionregistrationv1.ValidatingAdmissionPolicy
	kind := func(apiVersion, kind string) func(validating) {
		return func(p validating) {
			p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: apiVersion, Kind: kind}
		}
	}
	long := strings.Repeat("x", 5<<10+1)
	for name, tc := range map[string]struct {
		change func(validating)
		want   []string
	}{
		"fine":              {change: func(validating) {}},
		"no failure policy": {change: func(p validating) { p.Spec.FailurePolicy = nil }, want: []string{"spec.failurePolicy: Required value"}},
		"a failure policy":  {change: func(p validating) { p.Spec.FailurePolicy = new(admissionregistrationv1.FailurePolicyType("Odd")) }, want: []string{`spec.failurePolicy: Unsupported value: "Odd": supported values: "Fail", "Ignore"`}},
		"a kind":            {change: kind("example.com/v1", "Thing")},
		"a core kind":       {change: kind("v1", "ConfigMap")},
		"no kind":           {change: kind("", ""), want: []string{"spec.paramKind.apiVersion: Required value", "spec.paramKind.kind: Required value"}},
		"a bad kind":        {change: kind("A/1", "1"), want: []string{`spec.paramKind.apiVersion: Invalid value: "A": ` + badSubdomain, `spec.paramKind.apiVersion: Invalid value: "1": ` + badVersion, `spec.paramKind.kind: Invalid value: "1": may have mixed case, but should otherwise match: ` + badVersion}},
		"a long version":    {change: kind("a/b/c", "T"), want: []string{`spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`}},
		"a long kind": {change: kind("v1", strings.Repeat("A", 63)+"_"), want: []string{
			`spec.paramKind.kind: Invalid value: "` + strings.Repeat("A", 63) + `_": may have mixed case, but should otherwise match: must be no more than 63 characters,` + badVersion,
		}},
		"no version":        {change: kind("a/", "T"), want: []string{`spec.paramKind.apiVersion: Invalid value: "a/": version must be specified`}},
		"no constraints":    {change: func(p validating) { p.Spec.MatchConstraints = nil }, want: []string{"spec.matchConstraints: Required value"}},
		"empty constraints": {change: func(p validating) { p.Spec.MatchConstraints = &admissionregistrationv1.MatchResources{} }, want: []string{"spec.matchConstraints.matchPolicy: Required value", "spec.matchConstraints.namespaceSelector: Required value", "spec.matchConstraints.objectSelector: Required value", "spec.matchConstraints.resourceRules: Required value"}},
		"names":             {change: func(p validating) { p.Spec.MatchConstraints.ResourceRules[0].ResourceNames = []string{"a", "a", "b/c"} }, want: []string{`spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"`, `spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "b/c": may not contain '/'`}},
		"exclusions": {change: func(p validating) {
			p.Spec.MatchConstraints.ExcludeResourceRules = []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newRule()}}
			p.Spec.MatchConstraints.ExcludeResourceRules[0].Resources = nil
			p.Spec.MatchConstraints.MatchPolicy = new(admissionregistrationv1.MatchPolicyType("Odd"))
		}, want: []string{`spec.matchConstraints.matchPolicy: Unsupported value: "Odd": supported values: "Equivalent", "Exact"`, "spec.matchConstraints.excludeResourceRules[0].resources: Required value"}},
		"conditions": {change: func(p validating) { p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{}} }, want: []string{"spec.matchConditions[0].expression: Required value", "spec.matchConditions[0].name: Required value"}},
		"variables": {change: func(p validating) {
			p.Spec.Variables = []admissionregistrationv1.Variable{{Name: "_a1", Expression: "1"}, {}, {Name: "in", Expression: "1"}, {Name: "1", Expression: "1"}}
		}, want: []string{"spec.variables[1].name: Required value: name is not specified", "spec.variables[1].expression: Required value: expression is not specified", `spec.variables[2].name: Invalid value: "in": must be a valid CEL identifier`, `spec.variables[3].name: Invalid value: "1": must be a valid CEL identifier`}},
		"nothing to validate": {change: func(p validating) { p.Spec.Validations = nil }, want: []string{"spec.validations: Required value: validations or auditAnnotations must contain at least one item", "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item"}},
		"validations": {change: func(p validating) {
			p.Spec.Validations[0] = admissionregistrationv1.Validation{Message: " ", MessageExpression: " ", Reason: new(metav1.StatusReason("Odd"))}
		}, want: []string{"spec.validations[0].expression: Required value: expression is not specified", `spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified`, `spec.validations[0].message: Invalid value: " ": must be non-empty if specified`, `spec.validations[0].reason: Unsupported value: "Odd": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"`}},
		"two lines": {change: func(p validating) { p.Spec.Validations[0].Message = "a\nb" }, want: []string{`spec.validations[0].message: Invalid value: "a\nb": must not contain line breaks`}},
		"annotations": {change: func(p validating) {
			p.Spec.AuditAnnotations = []admissionregistrationv1.AuditAnnotation{{Key: "a", ValueExpression: "'x'"}, {Key: "a"}, {Key: "-", ValueExpression: long}}
		}, want: []string{"spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified", `spec.auditAnnotations[1].key: Duplicate value: "a"`, `spec.auditAnnotations[2].key: Invalid value: "x/-": ` + badName, "spec.auditAnnotations[2].valueExpression: Required value: must not exceed 5120 bytes in length"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPolicy()
			tc.change(p)
			errortest.Exactly(t, newValidator().validatingPolicy(p), tc.want...)
			errortest.Exactly(t, newValidator().validatingPolicyUpdate(p, newPolicy()), tc.want...)
		})
	}
	stored := newPolicy()
	stored.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{}}
	errortest.Exactly(t, newValidator().validatingPolicyUpdate(stored.DeepCopy(), stored))
}

// TestPolicyStatus checks what a controller writes: the paths of fields, and conditions.
func TestPolicyStatus(t *testing.T) {
	p := newPolicy()
	p.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{
		{}, {Warning: "w", FieldRef: " spec.validations[0].expression "}, {Warning: "w", FieldRef: "spec.validations[0"},
	}}
	p.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "R", LastTransitionTime: metav1.Now()}, {}}
	errortest.Exactly(t, validateValidatingPolicyStatus(p, p),
		"status.typeChecking.expressionWarnings[0].warning: Required value", "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
		`status.typeChecking.expressionWarnings[2].fieldRef: Invalid value: "spec.validations[0": invalid JSONPath: unterminated array`,
		"status.conditions[1].type: Required value: is required", "status.conditions[1].status: Required value",
		"status.conditions[1].lastTransitionTime: Required value", "status.conditions[1].reason: Required value",
	)
	p.Status = admissionregistrationv1.ValidatingAdmissionPolicyStatus{}
	errortest.Exactly(t, validateValidatingPolicyStatus(p, p))
}

// TestReservedNames checks that no variable has a name that CEL reserves.
func TestReservedNames(t *testing.T) {
	for _, name := range []string{
		"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
		"namespace", "return", "var", "void", "while",
	} {
		p := newPolicy()
		p.Spec.Variables = []admissionregistrationv1.Variable{{Name: name, Expression: "1"}}
		errortest.Exactly(t, newValidator().validatingPolicy(p), `spec.variables[0].name: Invalid value: "`+name+`": must be a valid CEL identifier`)
	}
}
