package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// MutatingPolicyBinding defines the kind MutatingPolicyBinding.
func MutatingPolicyBinding() *kinds.Definition {
	type binding = *admissionregistrationv1.MutatingAdmissionPolicyBinding
	return kinds.Of[binding]{
		Level:    kinds.Full,
		Columns:  mutatingAdmissionPolicyBindingColumns(),
		Default:  defaultMutatingPolicyBinding,
		Create:   func(b binding) { b.Generation = 1 },
		Validate: unreserved(validateMutatingPolicyBinding),
		Update: kinds.ChangeOf[binding]{
			Prepare: func(b, old binding) {
				if !apiequality.Semantic.DeepEqual(b.Spec, old.Spec) {
					b.Generation = old.Generation + 1
				}
			},
			Validate: validateMutatingPolicyBindingUpdate,
			Warnings: reservedName[binding],
		},
		ConditionalUpdate: true,
		Obeyed:            true,
	}.Definition()
}

// defaultMutatingPolicyBinding sets the defaults of a binding of a mutating policy.
func defaultMutatingPolicyBinding(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) {
	defaultMatchResources(b.Spec.MatchResources)
}

func mutatingAdmissionPolicyBindingColumns() *columns.Layout {
	return columns.Of(policyBindingColumns(), func(b *admissionregistrationv1.MutatingAdmissionPolicyBinding, now time.Time) []any {
		return []any{b.Name, b.Spec.PolicyName, parameters(b.Spec.ParamRef), columns.AgeOf(b, now)}
	})
}
