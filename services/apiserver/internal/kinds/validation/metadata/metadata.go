package metadata

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Validate checks the rules for the metadata of every kind and appends their errors to found,
// the errors that the kind's own rules found. The name can be a path segment, and labels, annotations,
// owners and finalizers are well formed. Objects of a namespaced kind have a namespace, which their
// requests set. Only finalizers are checked if there are errors already.
func Validate(obj metav1.Object, namespaced bool, found field.ErrorList) field.ErrorList {
	path := field.NewPath("metadata")
	if len(found) == 0 {
		found = apivalidation.ValidateObjectMetaAccessor(obj, namespaced, segment, path)
	}
	_, custom := obj.(*unstructured.Unstructured)
	if typed, ok := obj.(runtime.Object); ok && !custom && !anyFinalizers(typed.GetObjectKind().GroupVersionKind()) {
		found = append(found, finalizers(obj.GetFinalizers(), path.Child("finalizers"))...)
	}
	return found
}

// anyFinalizers reports whether Kubernetes checks only the form of the finalizers of a kind, as it does
// for custom resources.
func anyFinalizers(kind schema.GroupVersionKind) bool {
	switch kind.Group {
	case "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io", "node.k8s.io", "policy":
		return true
	}
	return kind.Group == "" && kind.Kind == "Event"
}

// finalizers checks that finalizers without a domain are Kubernetes' own.
func finalizers(names []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, name := range names {
		errs = append(errs, StandardFinalizer(name, path.Index(i))...)
	}
	return errs
}

func StandardFinalizer(name string, path *field.Path) field.ErrorList {
	switch name {
	case string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return nil
	}
	if strings.Contains(name, "/") {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified")}
}

// ValidateUpdate makes the same checks for an update, and checks that immutable fields have
// not changed.
func ValidateUpdate(obj, old metav1.Object) field.ErrorList {
	errs := Validate(obj, obj.GetNamespace() != "", nil)
	return append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))...)
}

func segment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
