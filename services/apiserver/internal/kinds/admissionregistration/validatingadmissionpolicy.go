package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ValidatingPolicy defines the kind ValidatingPolicy.
func ValidatingPolicy() *kinds.Definition {
	type policy = *admissionregistrationv1.ValidatingAdmissionPolicy
	v := newValidator()
	specStatus := kinds.SpecStatusOf(func(p policy) (*admissionregistrationv1.ValidatingAdmissionPolicySpec, *admissionregistrationv1.ValidatingAdmissionPolicyStatus) {
		return &p.Spec, &p.Status
	})
	return kinds.Of[policy]{
		Level:    kinds.Full,
		Columns:  validatingAdmissionPolicyColumns(),
		Default:  defaultValidatingPolicy,
		Create:   specStatus.Begin,
		Validate: unreserved(v.validatingPolicy),
		Update:   kinds.ChangeOf[policy]{Prepare: specStatus.KeepStatus, Validate: v.validatingPolicyUpdate, Warnings: reservedName[policy]},
		Subresources: map[string]kinds.ChangeOf[policy]{"status": {
			Prepare: func(p, old policy) {
				specStatus.KeepSpec(p, old)
				kinds.KeepMetadata(p, old)
			},
			Validate: validateValidatingPolicyStatus,
		}},
		ConditionalUpdate: true,
		Obeyed:            true,
		Costly:            true,
	}.Definition()
}

// defaultValidatingPolicy sets the defaults of a validating policy.
func defaultValidatingPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	kinds.Fill(&p.Spec.FailurePolicy, admissionregistrationv1.Fail)
	defaultMatchResources(p.Spec.MatchConstraints)
}

func validatingAdmissionPolicyColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Number("Validations", "Validations indicates the number of validation rules defined in this configuration"),
		columns.Text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
		columns.Age(),
	}, func(p *admissionregistrationv1.ValidatingAdmissionPolicy, now time.Time) []any {
		return []any{p.Name, int64(len(p.Spec.Validations)), parameterKind(p.Spec.ParamKind), columns.AgeOf(p, now)}
	})
}
