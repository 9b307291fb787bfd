package review

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateSpec returns the errors in a review about a user.
func validateSpec(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := validateTarget(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return append(errs, validateSelectors(spec.ResourceAttributes)...)
}

// validateAttributes returns the errors in a review's attributes.
func validateAttributes(on *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) field.ErrorList {
	return append(validateTarget(on, path), validateSelectors(on)...)
}

func validateTarget(on *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) field.ErrorList {
	if (on == nil) != (path == nil) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec"), path,
		"exactly one of nonResourceAttributes or resourceAttributes must be specified")}
}

// validateLocal returns the errors in a review about one namespace.
func validateLocal(review *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := append(validateSpec(&review.Spec), validateMeta(&review.ObjectMeta, true)...)
	if on := review.Spec.ResourceAttributes; on != nil && on.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), on.Namespace, "must match metadata.namespace"))
	}
	if path := review.Spec.NonResourceAttributes; path != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), path, "disallowed on this kind of request"))
	}
	return errs
}

// validateMeta refuses metadata, since a review is not stored.
func validateMeta(meta *metav1.ObjectMeta, namespaced bool) field.ErrorList {
	rest, message := *meta, "must be empty"
	rest.ManagedFields = nil
	if namespaced {
		rest.Namespace, message = "", "must be empty except for namespace"
	}
	if apiequality.Semantic.DeepEqual(rest, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), *meta, message)}
}

func validateSelectors(on *authorizationv1.ResourceAttributes) field.ErrorList {
	if on == nil {
		return nil
	}
	var errs field.ErrorList
	if selector := on.FieldSelector; selector != nil {
		path := field.NewPath("spec.resourceAttributes", "fieldSelector")
		errs = append(errs, validateForm(path, selector.RawSelector, len(selector.Requirements))...)
		for i, one := range selector.Requirements {
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(one,
				metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	if selector := on.LabelSelector; selector != nil {
		path := field.NewPath("spec.resourceAttributes", "labelSelector")
		errs = append(errs, validateForm(path, selector.RawSelector, len(selector.Requirements))...)
		for i, one := range selector.Requirements {
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(one,
				metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// validateForm refuses a selector that has both forms, or neither.
func validateForm(path *field.Path, raw string, requirements int) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"),
			fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	return nil
}
