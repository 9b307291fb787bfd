package values

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// OneOf checks a field that must hold one of some values, which errors list in this order.
func OneOf[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if value == "" && !slices.Contains(allowed, value) {
		return field.ErrorList{field.Required(path, "")}
	}
	return Known(value, path, allowed...)
}

// Known is oneOf without the special message for an empty value.
func Known[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

func QualifiedName(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	return errs
}

func Invalid(path *field.Path, value any, messages []string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range messages {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}
