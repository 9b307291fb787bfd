package validation

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kubernetes' limits for priorities.
const (
	systemClassPrefix   = "system-"
	highestUserPriority = 1000000000
)

// systemPriorities returns the priority classes that always exist, with their values.
func systemPriorities() map[string]int32 {
	return map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000}
}

// PodDisruptionBudget validates a disruption budget.
func PodDisruptionBudget(b *policyv1.PodDisruptionBudget) field.ErrorList {
	return budgetSpec(b, false)
}

// PodDisruptionBudgetUpdate validates an update of a disruption budget. A selector whose values are
// malformed already may stay so.
func PodDisruptionBudgetUpdate(b, old *policyv1.PodDisruptionBudget) field.ErrorList {
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
	errs := NumberOrPercent(value, path)
	if value.Type == intstr.String && Number(value) > 100 {
		errs = append(errs, field.Invalid(path, *value, "must not be greater than 100%"))
	}
	return errs
}

// PodDisruptionBudgetStatus validates a disruption budget's status.
func PodDisruptionBudgetStatus(b, _ *policyv1.PodDisruptionBudget) field.ErrorList {
	path, s := field.NewPath("status"), &b.Status
	errs := metav1validation.ValidateConditions(s.Conditions, path.Child("conditions"))
	errs = append(errs, nonnegative(int64(s.DisruptionsAllowed), path.Child("disruptionsAllowed"))...)
	errs = append(errs, nonnegative(int64(s.CurrentHealthy), path.Child("currentHealthy"))...)
	errs = append(errs, nonnegative(int64(s.DesiredHealthy), path.Child("desiredHealthy"))...)
	return append(errs, nonnegative(int64(s.ExpectedPods), path.Child("expectedPods"))...)
}

// PriorityClass validates a priority class. The Priority admission plugin checks that only one is
// the default.
func PriorityClass(c *schedulingv1.PriorityClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if strings.HasPrefix(c.Name, systemClassPrefix) {
		if err := systemClass(c); err != nil {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with '"+systemClassPrefix+"' prefix are reserved for system use only. error: "+err.Error()))
		}
	} else if c.Value > highestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"), fmt.Sprintf("maximum allowed value of a user defined priority is %v", highestUserPriority)))
	}
	if c.PreemptionPolicy == nil {
		return errs
	}
	path := field.NewPath("preemptionPolicy")
	switch policy := *c.PreemptionPolicy; policy {
	case corev1.PreemptLowerPriority, corev1.PreemptNever:
	case "":
		errs = append(errs, field.Required(path, ""))
	default:
		errs = append(errs, field.NotSupported(path, policy, []corev1.PreemptionPolicy{corev1.PreemptLowerPriority, corev1.PreemptNever}))
	}
	return errs
}

func systemClass(c *schedulingv1.PriorityClass) error {
	value, known := systemPriorities()[c.Name]
	switch {
	case !known:
		return fmt.Errorf("%v is not a known system priority class", c.Name)
	case c.Value != value:
		return fmt.Errorf("value of %v PriorityClass must be %v", c.Name, value)
	case c.GlobalDefault:
		return fmt.Errorf("globalDefault of %v PriorityClass must be %v", c.Name, false)
	}
	return nil
}

// PriorityClassUpdate validates an update of a priority class: the values that pods copy from it
// are immutable.
func PriorityClassUpdate(c, old *schedulingv1.PriorityClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if c.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, apivalidation.ValidateImmutableField(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
