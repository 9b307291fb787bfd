package metadata

import (
	"reflect"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateTemplate checks the metadata of a template that may have only labels and annotations.
func ValidateTemplate(meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateAnnotations(meta.Annotations, path.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(meta.Labels, path.Child("labels"))...)
	value := reflect.ValueOf(*meta)
	for i := range value.NumField() {
		name := value.Type().Field(i).Name
		if name == "Labels" || name == "Annotations" || value.Field(i).IsZero() {
			continue
		}
		errs = append(errs, field.Forbidden(path.Child(strings.ToLower(name[:1])+name[1:]), "cannot be set"))
	}
	return errs
}
