package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/metadata"
)

// validateNamespace validates a namespace.
func validateNamespace(n *corev1.Namespace) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&n.ObjectMeta, false, apivalidation.ValidateNamespaceName, field.NewPath("metadata"))
	for _, finalizer := range n.Spec.Finalizers {
		errs = append(errs, finalizerName(string(finalizer), field.NewPath("spec", "finalizers"))...)
	}
	return errs
}

// validateNamespaceFinalize validates an update of a namespace's spec.finalizers.
func validateNamespaceFinalize(n, _ *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for i, finalizer := range n.Spec.Finalizers {
		errs = append(errs, finalizerName(string(finalizer), field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}

func finalizerName(name string, path *field.Path) field.ErrorList {
	return append(apivalidation.ValidateFinalizerName(name, path), metadata.StandardFinalizer(name, path)...)
}

// validateNamespaceStatus validates an update of a namespace's status.
func validateNamespaceStatus(n, _ *corev1.Namespace) field.ErrorList {
	wanted, when := corev1.NamespaceActive, "empty"
	if n.DeletionTimestamp != nil {
		wanted, when = corev1.NamespaceTerminating, "not empty"
	}
	if n.Status.Phase == wanted {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("status", "Phase"), n.Status.Phase,
		fmt.Sprintf("may only be '%s' if `deletionTimestamp` is %s", wanted, when))}
}
