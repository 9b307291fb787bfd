package storage

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kubernetes' limits for a storage class's parameters.
const (
	maxParameters     = 512
	maxParametersSize = 256 << 10
)

func provisioner(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(path, strings.ToLower(name), msg))
	}
	return errs
}

func parameters(params map[string]string, path *field.Path) field.ErrorList {
	if len(params) > maxParameters {
		return field.ErrorList{field.TooLong(path, "", maxParameters)}
	}
	var errs field.ErrorList
	size := 0
	for key, value := range params {
		if key == "" {
			errs = append(errs, field.Invalid(path, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxParametersSize {
		errs = append(errs, field.TooLong(path, "", maxParametersSize))
	}
	return errs
}
