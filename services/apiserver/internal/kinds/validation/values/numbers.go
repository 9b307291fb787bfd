package values

import (
	"strconv"
	"strings"

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

// Number returns the number in a number, a percentage or the text of a number; 0 when there is none.
func Number(value *intstr.IntOrString) int {
	if value == nil {
		return 0
	}
	if n, ok := Percent(value); ok {
		return n
	}
	return value.IntValue()
}

// Percent returns the number in a percentage, and reports whether value is one.
func Percent(value *intstr.IntOrString) (number int, ok bool) {
	if value == nil || value.Type != intstr.String || len(validation.IsValidPercent(value.StrVal)) > 0 {
		return 0, false
	}
	number, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	return number, err == nil
}

func Nonnegative(value int64, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(value, path)
}
