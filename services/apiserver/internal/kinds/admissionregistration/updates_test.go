package admissionregistration

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestLenience checks each invalid part by itself: what is stored allows exactly the same fault.
func TestLenience(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fault func(mutating)
		want  string
	}{
		{"side effects", func(h mutating) { h.SideEffects = new(admissionregistrationv1.SideEffectClassSome) },
			`webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"`},
		{"versions", func(h mutating) { h.AdmissionReviewVersions = []string{"v2"} },
			`webhooks[0].admissionReviewVersions: Invalid value: ["v2"]: must include at least one of v1, v1beta1`},
		{"selector of namespaces", func(h mutating) { h.NamespaceSelector.MatchExpressions = unlabelled() },
			`webhooks[0].namespaceSelector.matchExpressions[0].values[0]: Invalid value: "_": ` + badValue},
		{"selector of objects", func(h mutating) { h.ObjectSelector.MatchExpressions = unlabelled() },
			`webhooks[0].objectSelector.matchExpressions[0].values[0]: Invalid value: "_": ` + badValue},
		{"conditions", func(h mutating) { h.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a"}} },
			"webhooks[0].matchConditions[0].expression: Required value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			good := newWebhooks("a.example.com")
			bad := good.DeepCopy()
			tc.fault(&bad.Webhooks[0])
			for _, update := range []struct {
				stored *admissionregistrationv1.MutatingWebhookConfiguration
				want   []string
			}{{good, []string{tc.want}}, {bad, nil}} {
				errortest.Exactly(t, newValidator().mutatingWebhooksUpdate(bad, update.stored), update.want...)
				errortest.Exactly(t, newValidator().validatingWebhooksUpdate(asValidating(bad), asValidating(update.stored)), update.want...)
			}
		})
	}
}

// unlabelled returns a requirement that no label can satisfy.
func unlabelled() []metav1.LabelSelectorRequirement {
	return []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"_"}}}
}

// TestNoSideEffectsStored checks that a stored webhook that does not say what else it does may keep
// it, and that the error about another one names every class.
func TestNoSideEffectsStored(t *testing.T) {
	stored, sent := newWebhooks("a.example.com", "b.example.com"), newWebhooks("a.example.com", "b.example.com")
	stored.Webhooks[1].SideEffects, sent.Webhooks[0].SideEffects = nil, nil
	sent.Webhooks[1].SideEffects = new(admissionregistrationv1.SideEffectClassUnknown)
	errortest.Exactly(t, newValidator().mutatingWebhooksUpdate(sent, stored),
		"webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun, Some, Unknown")
}

// TestParametersOfConditions checks that another kind of parameters lets the match conditions of a
// policy, which may use them, be checked again.
func TestParametersOfConditions(t *testing.T) {
	condition := []admissionregistrationv1.MatchCondition{{Name: "a"}}
	kind := &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
	const empty = "spec.matchConditions[0].expression: Required value"
	validating := newPolicy()
	validating.Spec.MatchConditions = condition
	changed := validating.DeepCopy()
	changed.Spec.ParamKind = kind
	errortest.Exactly(t, newValidator().validatingPolicyUpdate(changed, validating), empty)

	changed.Spec.ParamKind, changed.Spec.Validations = nil, nil
	errortest.Contain(t, newValidator().validatingPolicyUpdate(changed, validating), "spec.validations: Required value")

	mutating := newMutatingPolicy()
	mutating.Spec.MatchConditions = condition
	errortest.Exactly(t, newValidator().mutatingPolicy(mutating), empty)
	errortest.Exactly(t, newValidator().mutatingPolicyUpdate(mutating.DeepCopy(), mutating))
	other := mutating.DeepCopy()
	other.Spec.ParamKind = kind
	errortest.Exactly(t, newValidator().mutatingPolicyUpdate(other, mutating), empty)
	other.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1"}
	errortest.Contain(t, newValidator().mutatingPolicyUpdate(other, mutating), "spec.paramKind.kind: Required value")
}

// TestMetadataOfUpdates checks that the name of each kind stays.
func TestMetadataOfUpdates(t *testing.T) {
	const renamed = `metadata.name: Invalid value: "y": field is immutable`
	hooks := newWebhooks()
	other := hooks.DeepCopy()
	other.Name = "y"
	policy, mutating := newPolicy(), newMutatingPolicy()
	policy.Name, mutating.Name = "y", "y"
	spec := admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "p", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn, admissionregistrationv1.Audit},
	}
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta(), Spec: spec}
	mutatingBinding := &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: meta(), Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"},
	}
	binding2, mutatingBinding2 := binding.DeepCopy(), mutatingBinding.DeepCopy()
	binding2.Name, mutatingBinding2.Name = "y", "y"
	for name, errs := range map[string]field.ErrorList{
		"mutating webhooks":   newValidator().mutatingWebhooksUpdate(other, hooks),
		"validating webhooks": newValidator().validatingWebhooksUpdate(asValidating(other), asValidating(hooks)),
		"validating policy":   newValidator().validatingPolicyUpdate(policy, newPolicy()),
		"mutating policy":     newValidator().mutatingPolicyUpdate(mutating, newMutatingPolicy()),
		"validating binding":  validateValidatingPolicyBindingUpdate(binding2, binding),
		"mutating binding":    validateMutatingPolicyBindingUpdate(mutatingBinding2, mutatingBinding),
	} {
		t.Run(name, func(t *testing.T) { errortest.Exactly(t, errs, renamed) })
	}
}

// TestNamesOfNewObjects checks that the name of each new object is a subdomain.
func TestNamesOfNewObjects(t *testing.T) {
	const bad = `metadata.name: Invalid value: "A": ` + badSubdomain
	named := metav1.ObjectMeta{Name: "A"}
	policy, mutating := newPolicy(), newMutatingPolicy()
	policy.ObjectMeta, mutating.ObjectMeta = named, named
	for name, errs := range map[string]field.ErrorList{
		"mutating webhooks":   newValidator().mutatingWebhooks(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named}),
		"validating webhooks": newValidator().validatingWebhooks(&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named}),
		"validating policy":   newValidator().validatingPolicy(policy),
		"mutating policy":     newValidator().mutatingPolicy(mutating),
		"validating binding": validateValidatingPolicyBinding(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: named, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{PolicyName: "p", ValidationActions: []admissionregistrationv1.ValidationAction{"Warn"}},
		}),
		"mutating binding": validateMutatingPolicyBinding(&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: named, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "p"},
		}),
	} {
		t.Run(name, func(t *testing.T) { errortest.Exactly(t, errs, bad) })
	}
}
