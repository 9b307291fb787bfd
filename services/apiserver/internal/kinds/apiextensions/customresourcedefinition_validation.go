package apiextensions

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateCustomResourceDefinition validates a new definition. CEL's cost limits bound the time.
func validateCustomResourceDefinition(c crd) field.ErrorList {
	in, errs := internal(c)
	if len(errs) > 0 {
		return errs
	}
	if errs := validateExtent(in, nil); len(errs) > 0 {
		return errs // Kubernetes' rules would compile all of it.
	}
	return survive(func() field.ErrorList { return validation.ValidateCustomResourceDefinition(context.Background(), in) })
}

// survive returns what a rule of Kubernetes finds. Some panic, as that of selectable fields without a schema.
func survive(validate func() field.ErrorList) (errs field.ErrorList) {
	defer func() {
		if problem := recover(); problem != nil {
			errs = field.ErrorList{field.Invalid(field.NewPath("spec"), field.OmitValueType{}, fmt.Sprintf("cannot be validated: %v", problem))}
		}
	}()
	return validate()
}

// validateCustomResourceDefinitionUpdate validates an update of a definition. What was invalid before may
// stay in many places.
func validateCustomResourceDefinitionUpdate(c, old crd) field.ErrorList {
	return validateBoth(c, old, func(ctx context.Context, c, old *apiextensions.CustomResourceDefinition) field.ErrorList {
		if errs := validateExtent(c, old); len(errs) > 0 {
			return errs
		}
		return validation.ValidateCustomResourceDefinitionUpdate(ctx, c, old)
	})
}

// validateCustomResourceDefinitionStatus validates an update of a definition's status.
func validateCustomResourceDefinitionStatus(c, old crd) field.ErrorList {
	return validateBoth(c, old, validation.ValidateUpdateCustomResourceDefinitionStatus)
}

func validateBoth(c, old crd, validate func(ctx context.Context, c, old *apiextensions.CustomResourceDefinition) field.ErrorList) field.ErrorList {
	in, errs := internal(c)
	if len(errs) > 0 {
		return errs
	}
	before, errs := internal(old)
	if len(errs) > 0 {
		return errs
	}
	return survive(func() field.ErrorList { return validate(context.Background(), in, before) })
}

// internal returns a definition in the form that Kubernetes' own rules are written for.
func internal(c crd) (*apiextensions.CustomResourceDefinition, field.ErrorList) {
	in := &apiextensions.CustomResourceDefinition{}
	// The conversion takes parts of its source over, and changes them.
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(c.DeepCopy(), in, nil); err != nil {
		return nil, field.ErrorList{field.InternalError(nil, fmt.Errorf("reading the definition: %w", err))}
	}
	return in, nil
}
