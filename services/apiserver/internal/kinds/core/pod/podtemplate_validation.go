package pod

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
)

// validatePodTemplate validates a new PodTemplate object.
func validatePodTemplate(t *corev1.PodTemplate) field.ErrorList { return podTemplateWith(t, nil) }

// podTemplateWith validates a PodTemplate object; was is the template that an update replaces, nil at
// creation.
func podTemplateWith(t *corev1.PodTemplate, was *corev1.PodTemplateSpec) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&t.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, podspec.Template(&t.Template, was, field.NewPath("template"))...)
}

// validatePodTemplateUpdate validates an update of a pod template. All of it may change.
func validatePodTemplateUpdate(t, old *corev1.PodTemplate) field.ErrorList {
	return podTemplateWith(t, &old.Template)
}
