package admissionregistration

import (
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/patterns"
)

// Kubernetes has no such bounds: an object of the size that etcd accepts takes all memory of its apiserver,
// which compiles every expression and keeps it.
const (
	// maxExpressions bounds the CEL expressions of a policy, or of a configuration of webhooks.
	maxExpressions = 2000
	// maxPatterns bounds the size of the regular expressions in them: about 10 MB of memory.
	maxPatterns = 200_000
)

// validateExtent returns an error if there are too many expressions, or too large ones; but not if those of
// old, which are stored already, were so too.
func validateExtent(at *field.Path, expressions, old []string) field.ErrorList {
	text := excess(expressions)
	if text == "" || excess(old) != "" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, field.OmitValueType{}, text)}
}

// excess returns what is wrong with the extent of expressions; empty if nothing is.
func excess(expressions []string) string {
	if len(expressions) > maxExpressions {
		return fmt.Sprintf("must have at most %d expressions", maxExpressions)
	}
	size := 0
	for _, expression := range expressions {
		if size += patterns.InExpression(expression); size > maxPatterns {
			return fmt.Sprintf("the regular expressions of all expressions must not compile to more than %d instructions together", maxPatterns)
		}
	}
	return ""
}

func conditionsOf(list []admissionregistrationv1.MatchCondition, all []string) []string {
	for _, condition := range list {
		all = append(all, condition.Expression)
	}
	return all
}

func variablesOf(list []admissionregistrationv1.Variable, all []string) []string {
	for _, variable := range list {
		all = append(all, variable.Expression)
	}
	return all
}

func expressionsOfValidating(s *admissionregistrationv1.ValidatingAdmissionPolicySpec) []string {
	all := variablesOf(s.Variables, conditionsOf(s.MatchConditions, nil))
	for _, v := range s.Validations {
		all = append(all, v.Expression)
		if v.MessageExpression != "" {
			all = append(all, v.MessageExpression)
		}
	}
	for _, annotation := range s.AuditAnnotations {
		all = append(all, annotation.ValueExpression)
	}
	return all
}

func expressionsOfMutating(s *admissionregistrationv1.MutatingAdmissionPolicySpec) []string {
	all := variablesOf(s.Variables, conditionsOf(s.MatchConditions, nil))
	for _, m := range s.Mutations {
		if m.JSONPatch != nil {
			all = append(all, m.JSONPatch.Expression)
		}
		if m.ApplyConfiguration != nil {
			all = append(all, m.ApplyConfiguration.Expression)
		}
	}
	return all
}

func expressionsOfWebhooks(list []webhook) []string {
	var all []string
	for _, h := range list {
		all = conditionsOf(h.MatchConditions, all)
	}
	return all
}
