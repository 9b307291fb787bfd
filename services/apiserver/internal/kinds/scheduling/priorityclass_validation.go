package scheduling

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
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

// validatePriorityClass validates a priority class. The Priority admission plugin checks that only one is
// the default.
func validatePriorityClass(c *schedulingv1.PriorityClass) field.ErrorList {
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

// validatePriorityClassUpdate validates an update of a priority class: the values that pods copy from it
// are immutable.
func validatePriorityClassUpdate(c, old *schedulingv1.PriorityClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if c.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, apivalidation.ValidateImmutableField(c.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
