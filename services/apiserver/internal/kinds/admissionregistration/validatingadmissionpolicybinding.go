package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ValidatingPolicyBinding defines the kind ValidatingPolicyBinding.
func ValidatingPolicyBinding() *kinds.Definition {
	type binding = *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	return kinds.Of[binding]{
		Level:    kinds.Full,
		Columns:  validatingAdmissionPolicyBindingColumns(),
		Default:  defaultValidatingPolicyBinding,
		Create:   func(b binding) { b.Generation = 1 },
		Validate: unreserved(validateValidatingPolicyBinding),
		Update: kinds.ChangeOf[binding]{
			Prepare: func(b, old binding) {
				if !apiequality.Semantic.DeepEqual(b.Spec, old.Spec) {
					b.Generation = old.Generation + 1
				}
			},
			Validate: validateValidatingPolicyBindingUpdate,
			Warnings: reservedName[binding],
		},
		ConditionalUpdate: true,
		Obeyed:            true,
	}.Definition()
}

// defaultValidatingPolicyBinding sets the defaults of a binding of a validating policy.
func defaultValidatingPolicyBinding(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	defaultMatchResources(b.Spec.MatchResources)
}

func validatingAdmissionPolicyBindingColumns() *columns.Layout {
	return columns.Of(policyBindingColumns(), func(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding, now time.Time) []any {
		return []any{b.Name, b.Spec.PolicyName, parameters(b.Spec.ParamRef), columns.AgeOf(b, now)}
	})
}
