package validation

import (
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// SystemMetadata checks what must hold for the metadata of every kind, whatever its strategy:
// the name can be part of a path, and labels, annotations, owners and finalizers are well
// formed. Whether the namespace fits is the strategy's, which knows the scope.
func SystemMetadata(obj metav1.Object) field.ErrorList {
	return apivalidation.ValidateObjectMetaAccessor(obj, obj.GetNamespace() != "", segment, field.NewPath("metadata"))
}

// SystemMetadataUpdate checks an update likewise, and that what may not change has not.
func SystemMetadataUpdate(obj, old metav1.Object) field.ErrorList {
	errs := SystemMetadata(obj)
	return append(errs, apivalidation.ValidateObjectMetaAccessorUpdate(obj, old, field.NewPath("metadata"))...)
}

func segment(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}
