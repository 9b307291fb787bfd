package core

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateServiceAccount validates a service account.
func validateServiceAccount(a *corev1.ServiceAccount) field.ErrorList {
	return apivalidation.ValidateObjectMeta(&a.ObjectMeta, true, apivalidation.ValidateServiceAccountName, field.NewPath("metadata"))
}
