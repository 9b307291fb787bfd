package custom

import (
	"context"
	"fmt"
	"math"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Validate returns all errors in a new object.
func (r *rules) Validate(u *unstructured.Unstructured) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, u.Object, r.whole)
	errs = append(errs, objectmeta.Validate(context.Background(), nil, u.Object, r.structural, false)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, r.structural, u.Object)...)
	return r.evaluate(errs, u, nil, nil)
}

// ValidateUpdate returns all errors in a changed object. What was invalid before and is unchanged may stay.
func (r *rules) ValidateUpdate(u, old *unstructured.Unstructured) field.ErrorList {
	both := common.NewCorrelatedObject(u.Object, old.Object, &model.Structural{Structural: r.structural})
	errs := validation.ValidateCustomResourceUpdate(nil, u.Object, old.Object, r.whole, validation.WithRatcheting(both))
	errs = append(errs, objectmeta.Validate(context.Background(), nil, u.Object, r.structural, false)...)
	errs = append(errs, r.listsOf(u, old)...)
	return r.evaluate(errs, u, old, both)
}

// ValidateStatus returns all errors in a changed status.
func (r *rules) ValidateStatus(u, old *unstructured.Unstructured) field.ErrorList {
	both := common.NewCorrelatedObject(u.Object, old.Object, &model.Structural{Structural: r.structural})
	var errs field.ErrorList
	if status, ok := u.Object["status"]; ok {
		var options []validation.ValidationOption
		if r.structural != nil {
			options = append(options, validation.WithRatcheting(both.Key("status")))
		}
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old.Object["status"], r.status, options...)
	}
	errs = append(errs, r.listsOf(u, old)...)
	return r.evaluate(errs, u, old, both)
}

// listsOf returns the errors in lists that are sets or maps, unless the old object has some too.
func (r *rules) listsOf(u, old *unstructured.Unstructured) field.ErrorList {
	errs := listtype.ValidateListSetsAndMaps(nil, r.structural, u.Object)
	if len(errs) > 0 && len(listtype.ValidateListSetsAndMaps(nil, r.structural, old.Object)) > 0 {
		return nil
	}
	return errs
}

// evaluate adds the errors of the schema's CEL rules, which are only defined for objects of the right form.
// CEL's cost limits bound the time.
func (r *rules) evaluate(errs field.ErrorList, u, old *unstructured.Unstructured, both *common.CorrelatedObject) field.ErrorList {
	if r.expressions == nil {
		return errs
	}
	for _, err := range errs {
		switch err.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return append(errs, field.Invalid(nil, nil,
				"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"))
		}
	}
	var before any
	var options []cel.Option
	if old != nil {
		before, options = old.Object, []cel.Option{cel.WithRatcheting(both)}
	}
	found, _ := r.expressions.Validate(context.Background(), nil, r.structural, u.Object, before, celconfig.RuntimeCELCostBudget, options...)
	return append(errs, found...)
}

// validateMetadata validates the metadata of a new object.
func validateMetadata(u *unstructured.Unstructured, namespaced bool) field.ErrorList {
	meta, errs := metadataOf(u)
	if len(errs) > 0 {
		return errs
	}
	return apivalidation.ValidateObjectMeta(meta, namespaced, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
}

// validateMetadataUpdate validates changed metadata.
func validateMetadataUpdate(u, old *unstructured.Unstructured) field.ErrorList {
	if plainMetadata(u.Object) && plainMetadata(old.Object) {
		return apivalidation.ValidateObjectMetaAccessorUpdate(u, old, field.NewPath("metadata"))
	}
	meta, errs := metadataOf(u)
	if len(errs) > 0 {
		return errs
	}
	before, errs := metadataOf(old)
	if len(errs) > 0 {
		return errs
	}
	return apivalidation.ValidateObjectMetaUpdate(meta, before, field.NewPath("metadata"))
}

// validateScale validates the numbers that the scale subresource shows.
func validateScale(u *unstructured.Unstructured, scale *apiextensionsv1.CustomResourceSubresourceScale, spec bool) field.ErrorList {
	if scale == nil {
		return nil
	}
	var errs field.ErrorList
	if spec {
		errs = replicas(u, scale.SpecReplicasPath)
	}
	errs = append(errs, replicas(u, scale.StatusReplicasPath)...)
	if path := scale.LabelSelectorPath; path != nil {
		if selector, _, err := unstructured.NestedString(u.Object, fieldsOf(*path)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), selector, err.Error()))
		}
	}
	return errs
}

func replicas(u *unstructured.Unstructured, path string) field.ErrorList {
	at := field.NewPath(path)
	switch count, _, err := unstructured.NestedInt64(u.Object, fieldsOf(path)...); {
	case err != nil:
		return field.ErrorList{field.Invalid(at, count, err.Error())}
	case count < 0:
		return field.ErrorList{field.Invalid(at, count, "should be a non-negative integer")}
	case count > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, count, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

// fieldsOf returns the fields of a simple JSON path, as ".spec.replicas".
func fieldsOf(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// metadataOf returns the metadata of an object in its typed form.
func metadataOf(u *unstructured.Unstructured) (*metav1.ObjectMeta, field.ErrorList) {
	meta, _, err := objectmeta.GetObjectMeta(u.Object, false)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(field.NewPath("metadata"), nil, err.Error())}
	}
	return meta, nil
}
