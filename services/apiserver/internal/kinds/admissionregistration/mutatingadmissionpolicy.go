package admissionregistration

import (
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// MutatingPolicy defines the kind MutatingPolicy.
func MutatingPolicy() *kinds.Definition {
	type policy = *admissionregistrationv1.MutatingAdmissionPolicy
	v := newValidator()
	return kinds.Of[policy]{
		Level:    kinds.Full,
		Columns:  mutatingAdmissionPolicyColumns(),
		Default:  defaultMutatingPolicy,
		Create:   func(p policy) { p.Generation = 1 },
		Validate: unreserved(v.mutatingPolicy),
		Update: kinds.ChangeOf[policy]{
			Prepare: func(p, old policy) {
				if !apiequality.Semantic.DeepEqual(p.Spec, old.Spec) {
					p.Generation = old.Generation + 1
				}
			},
			Validate: v.mutatingPolicyUpdate,
			Warnings: reservedName[policy],
		},
		ConditionalUpdate: true,
		Obeyed:            true,
		Costly:            true,
	}.Definition()
}

// defaultMutatingPolicy sets the defaults of a mutating policy.
func defaultMutatingPolicy(p *admissionregistrationv1.MutatingAdmissionPolicy) {
	kinds.Fill(&p.Spec.FailurePolicy, admissionregistrationv1.Fail)
	defaultMatchResources(p.Spec.MatchConstraints)
}

func mutatingAdmissionPolicyColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Number("Mutations", "Mutation indicates the number of mutations rules defined in this configuration"),
		columns.Text("ParamKind", "ParamKind specifies the kind of resources used to parameterize this policy"),
		columns.Age(),
	}, func(p *admissionregistrationv1.MutatingAdmissionPolicy, now time.Time) []any {
		return []any{p.Name, int64(len(p.Spec.Mutations)), parameterKind(p.Spec.ParamKind), columns.AgeOf(p, now)}
	})
}
