package admissionregistration

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestExtent checks that what would take much memory once compiled is refused, in every place of an
// expression, and that what is stored stays.
func TestExtent(t *testing.T) {
	large := "'a'.matches('(?:" + strings.Repeat("abcdefghij", 21) + "){1000}')"
	const (
		patterns = "spec: Invalid value: the regular expressions of all expressions must not compile to more than 200000 instructions together"
		count    = "spec: Invalid value: must have at most 2000 expressions"
	)
	for name, change := range map[string]func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec){
		"a condition": func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
			s.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: large}}
		},
		"a variable": func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
			s.Variables = []admissionregistrationv1.Variable{{Name: "a", Expression: large}}
		},
		"a validation": func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) { s.Validations[0].Expression = large },
		"a message": func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
			s.Validations[0].MessageExpression = large + " ? 'a' : 'b'"
		},
		"an annotation": func(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) {
			s.AuditAnnotations = []admissionregistrationv1.AuditAnnotation{{Key: "a", ValueExpression: large + " ? 'a' : 'b'"}}
		},
	} {
		p := newPolicy()
		change(&p.Spec)
		errortest.Exactly(t, newValidator().validatingPolicy(p), patterns)
		errortest.Exactly(t, newValidator().validatingPolicyUpdate(p, newPolicy()), patterns)
		if errs := newValidator().validatingPolicyUpdate(p, p); len(errs) > 0 {
			t.Errorf("%s: what is stored is refused: %v", name, errs.ToAggregate())
		}
	}
	many := newPolicy()
	for range maxExpressions {
		many.Spec.Validations = append(many.Spec.Validations, many.Spec.Validations[0])
	}
	errortest.Exactly(t, newValidator().validatingPolicy(many), count)

	m := newMutatingPolicy()
	m.Spec.Mutations[0].JSONPatch.Expression = large
	errortest.Exactly(t, newValidator().mutatingPolicy(m), patterns)
	errortest.Exactly(t, newValidator().mutatingPolicyUpdate(m, newMutatingPolicy()), patterns)
	m.Spec.Mutations[0] = admissionregistrationv1.Mutation{PatchType: "ApplyConfiguration", ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: large}}
	errortest.Exactly(t, newValidator().mutatingPolicy(m), patterns)

	h := webhook{}
	for i := range 4 {
		h.MatchConditions = append(h.MatchConditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprint(i), Expression: "'a'.matches('(?:" + strings.Repeat("ab", 30) + "){1000}')"})
	}
	if errs := validateExtent(nil, expressionsOfWebhooks([]webhook{h}), nil); len(errs) != 1 {
		t.Errorf("webhooks: got %v", errs)
	}
	if errs := validateExtent(nil, expressionsOfWebhooks([]webhook{h})[:2], nil); len(errs) != 0 {
		t.Errorf("fewer of them: got %v", errs)
	}
}
