package values

import (
	"strconv"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateNumberOrPercent validates a field that must hold a non-negative number or a percentage.
func ValidateNumberOrPercent(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if value.Type == intstr.Int {
		return Nonnegative(int64(value.IntVal), path)
	}
	var errs field.ErrorList
	for _, msg := range validation.IsValidPercent(value.StrVal) {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

// Number returns the number in a number or percentage; 0 when there is none.
func Number(value *intstr.IntOrString) int {
	if value == nil {
		return 0
	}
	if value.Type == intstr.Int {
		return int(value.IntVal)
	}
	if len(value.StrVal) == 0 {
		return 0
	}
	n, err := strconv.Atoi(value.StrVal[:len(value.StrVal)-1])
	if err != nil {
		return 0
	}
	return n
}

func Nonnegative(value int64, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(value, path)
}
