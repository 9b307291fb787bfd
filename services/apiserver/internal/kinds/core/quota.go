package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// resourceQuantity checks an amount of a resource; countable resources must be whole numbers.
func resourceQuantity(name corev1.ResourceName, quantity resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if quantity.Sign() < 0 {
		errs = append(errs, field.Invalid(path, quantity.String(), apivalidation.IsNegativeErrorMsg))
	}
	if (resources.Counted(name) || resources.Extended(name)) && quantity.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, quantity, "must be an integer"))
	}
	return errs
}
