package admissionregistration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestBindings(t *testing.T) {
	ref := func(ref admissionregistrationv1.ParamRef) *admissionregistrationv1.ParamRef { return &ref }
	deny, odd := admissionregistrationv1.DenyAction, admissionregistrationv1.ParameterNotFoundActionType("Odd")
	selector := &metav1.LabelSelector{}
	for name, tc := range map[string]struct {
		spec admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec
		want []string
	}{
		"fine":         {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref(admissionregistrationv1.ParamRef{Name: "x", ParameterNotFoundAction: &deny})}, nil},
		"nothing":      {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{}, []string{"spec.policyName: Required value"}},
		"a bad policy": {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "A"}, []string{`spec.policyName: Invalid value: "A": ` + badSubdomain}},
		"no parameter": {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref(admissionregistrationv1.ParamRef{})}, []string{"spec.paramRef: Required value: one of name or selector must be specified", "spec.paramRef.parameterNotFoundAction: Required value"}},
		"both":         {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref(admissionregistrationv1.ParamRef{Name: "a/b", Selector: selector, ParameterNotFoundAction: &odd})}, []string{`spec.paramRef.name: Invalid value: "a/b": may not contain '/'`, "spec.paramRef.name: Forbidden: name and selector are mutually exclusive", "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive", `spec.paramRef.parameterNotFoundAction: Unsupported value: "Odd": supported values: "Deny", "Allow"`}},
		"a selector": {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ParamRef: ref(admissionregistrationv1.ParamRef{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "_"}}, ParameterNotFoundAction: new(admissionregistrationv1.AllowAction),
		})}, []string{`spec.paramRef.selector.matchLabels: Invalid value: "_": ` + badValue}},
		"resources": {admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", MatchResources: &admissionregistrationv1.MatchResources{}}, []string{"spec.matchResources.matchPolicy: Required value", "spec.matchResources.namespaceSelector: Required value", "spec.matchResources.objectSelector: Required value"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: tc.spec}
			b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Deny", "Audit"}
			errortest.Exactly(t, validateValidatingPolicyBinding(b), tc.want...)
			errortest.Exactly(t, validateValidatingPolicyBindingUpdate(b, b), tc.want...)
			m := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
				PolicyName: tc.spec.PolicyName, ParamRef: tc.spec.ParamRef, MatchResources: tc.spec.MatchResources,
			}}
			errortest.Exactly(t, validateMutatingPolicyBinding(m), tc.want...)
			errortest.Exactly(t, validateMutatingPolicyBindingUpdate(m, m), tc.want...)
		})
	}
	b := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p"}}
	errortest.Exactly(t, validateValidatingPolicyBinding(b), "spec.validationActions: Required value")
	b.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{"Deny", "Odd", "Deny", "Warn"}
	errortest.Exactly(t, validateValidatingPolicyBinding(b),
		`spec.validationActions[1]: Unsupported value: "Odd": supported values: "Audit", "Deny", "Warn"`, `spec.validationActions[2]: Duplicate value: "Deny"`,
		`spec.validationActions: Invalid value: ["Deny","Odd","Deny","Warn"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)`)
	m := &admissionregistrationv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{
		PolicyName: "p", MatchResources: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newRule()}}},
	}}
	m.Spec.MatchResources.ResourceRules[0].Operations[0] = "DELETE"
	defaultMutatingPolicyBinding(m)
	errortest.Exactly(t, validateMutatingPolicyBinding(m), `spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"`)
}
