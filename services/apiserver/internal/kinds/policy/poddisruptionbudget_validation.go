package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validatePodDisruptionBudget validates a disruption budget.
func validatePodDisruptionBudget(b *policyv1.PodDisruptionBudget) field.ErrorList {
	return budgetSpec(b, false)
}

// validatePodDisruptionBudgetUpdate validates an update of a disruption budget. A selector whose values are
// malformed already may stay so.
func validatePodDisruptionBudgetUpdate(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
	was := metav1validation.ValidateLabelSelector(old.Spec.Selector, metav1validation.LabelSelectorValidationOptions{}, nil)
	return budgetSpec(b, len(was) > 0)
}

func budgetSpec(b *policyv1.PodDisruptionBudget, lenient bool) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec")
	if b.Spec.MinAvailable != nil && b.Spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(path, b.Spec, "minAvailable and maxUnavailable cannot be both set"))
	}
	errs = append(errs, budgetBound(b.Spec.MinAvailable, path.Child("minAvailable"))...)
	errs = append(errs, budgetBound(b.Spec.MaxUnavailable, path.Child("maxUnavailable"))...)
	errs = append(errs, metav1validation.ValidateLabelSelector(b.Spec.Selector,
		metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: lenient}, path.Child("selector"))...)
	if policy := b.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy != policyv1.AlwaysAllow && *policy != policyv1.IfHealthyBudget {
		errs = append(errs, field.NotSupported(path.Child("unhealthyPodEvictionPolicy"), *policy,
			[]policyv1.UnhealthyPodEvictionPolicyType{policyv1.AlwaysAllow, policyv1.IfHealthyBudget}))
	}
	return errs
}

func budgetBound(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	errs := values.ValidateNumberOrPercent(value, path)
	if n, ok := values.Percent(value); ok && n > 100 {
		errs = append(errs, field.Invalid(path, *value, "must not be greater than 100%"))
	}
	return errs
}

// validatePodDisruptionBudgetStatus validates a disruption budget's status.
func validatePodDisruptionBudgetStatus(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	path, s := field.NewPath("status"), &b.Status
	errs := metav1validation.ValidateConditions(s.Conditions, path.Child("conditions"))
	errs = append(errs, values.Nonnegative(int64(s.DisruptionsAllowed), path.Child("disruptionsAllowed"))...)
	errs = append(errs, values.Nonnegative(int64(s.CurrentHealthy), path.Child("currentHealthy"))...)
	errs = append(errs, values.Nonnegative(int64(s.DesiredHealthy), path.Child("desiredHealthy"))...)
	return append(errs, values.Nonnegative(int64(s.ExpectedPods), path.Child("expectedPods"))...)
}
