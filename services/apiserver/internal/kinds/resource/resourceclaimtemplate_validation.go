package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/metadata"
)

// validateClaimTemplate validates a template of claims.
func validateClaimTemplate(t *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return append(claimTemplate(t), extentOfClaim(&t.Spec.Spec.Devices, field.NewPath("spec", "spec", "devices", "requests"))...)
}

// claimTemplate checks what newer limits do not concern.
func claimTemplate(t *resourcev1.ResourceClaimTemplate) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&t.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, metadata.ValidateTemplate(&t.Spec.ObjectMeta, field.NewPath("spec", "metadata"))...)
	return append(errs, claim(&t.Spec.Spec.Devices, field.NewPath("spec", "spec", "devices"))...)
}

// validateClaimTemplateUpdate validates an update of a template, whose spec is immutable.
func validateClaimTemplateUpdate(t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return append(claimTemplate(t), apivalidation.ValidateImmutableField(t.Spec, old.Spec, field.NewPath("spec"))...)
}
