package core

import (
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxData bounds the data of a ConfigMap or Secret, in bytes.
const maxData = 1 << 20

const immutableSet = "field is immutable when `immutable` is set"

func dataKey(key, child string) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(field.NewPath(child).Key(key), key, msg))
	}
	return errs
}
