package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateTaintRule validates a new rule that taints devices.
func validateTaintRule(r *resourcev1.DeviceTaintRule) field.ErrorList {
	return validateTaintRuleUpdate(r, &resourcev1.DeviceTaintRule{})
}

// validateTaintRuleUpdate validates an update of a rule that taints devices.
func validateTaintRuleUpdate(r, old *resourcev1.DeviceTaintRule) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&r.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	if s, at := r.Spec.DeviceSelector, path.Child("deviceSelector"); s != nil {
		for _, part := range []struct {
			name  string
			value *string
			check func(string, *field.Path) field.ErrorList
		}{{"driver", s.Driver, driver}, {"pool", s.Pool, pool}, {"device", s.Device, label}} {
			if part.value != nil {
				errs = append(errs, part.check(*part.value, at.Child(part.name))...)
			}
		}
	}
	return append(errs, taint(&r.Spec.Taint, old.Spec.Taint.Effect, path.Child("taint"))...)
}

// validateTaintRuleStatus validates such a rule's status.
func validateTaintRuleStatus(r, _ *resourcev1.DeviceTaintRule) field.ErrorList {
	path := field.NewPath("status", "conditions")
	errs := metav1validation.ValidateConditions(r.Status.Conditions, path)
	if len(r.Status.Conditions) > resourcev1.DeviceTaintRuleStatusMaxConditions {
		errs = append(errs, field.TooMany(path, len(r.Status.Conditions), resourcev1.DeviceTaintRuleStatusMaxConditions))
	}
	return errs
}
