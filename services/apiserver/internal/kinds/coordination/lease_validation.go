package coordination

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateLease validates a lease.
func ValidateLease(l *coordinationv1.Lease) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&l.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	if s := l.Spec.LeaseDurationSeconds; s != nil && *s <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *s, "must be greater than 0"))
	}
	if n := l.Spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(path.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	if l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == "" && l.Spec.Strategy != nil {
		errs = append(errs, field.Required(path.Child("holderIdentity"), "must not be empty when strategy is set"))
	}
	if l.Spec.PreferredHolder != nil && *l.Spec.PreferredHolder != "" && l.Spec.Strategy == nil {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "may only be specified if strategy is defined"))
	}
	return errs
}
