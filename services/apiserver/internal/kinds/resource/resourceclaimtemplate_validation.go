package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateClaimTemplate validates a template of claims.
func validateClaimTemplate(t *resourcev1.ResourceClaimTemplate) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&t.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec", "metadata")
	errs = append(errs, apivalidation.ValidateAnnotations(t.Spec.Annotations, path.Child("annotations"))...)
	errs = append(errs, metav1validation.ValidateLabels(t.Spec.Labels, path.Child("labels"))...)
	return append(errs, claim(&t.Spec.Spec.Devices, field.NewPath("spec", "spec", "devices"))...)
}

// validateClaimTemplateUpdate validates an update of a template, whose spec is immutable.
func validateClaimTemplateUpdate(t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return apivalidation.ValidateImmutableField(t.Spec, old.Spec, field.NewPath("spec"))
}
