package customresources

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// judgeStructure records whether the schemas are structural. Only definitions that were stored before
// Kubernetes required that can have others. It reports whether the status changed.
func judgeStructure(c *crd) bool {
	next, was := nonStructural(c), apihelpers.FindCRDCondition(c, apiextensionsv1.NonStructuralSchema)
	switch {
	case next == nil && was == nil, next != nil && apihelpers.IsCRDConditionEquivalent(next, was):
		return false
	case next == nil:
		apihelpers.RemoveCRDCondition(c, apiextensionsv1.NonStructuralSchema)
	default:
		setCondition(c, *next)
	}
	return true
}

// nonStructural returns the condition of a definition with a schema that is not structural, else nil.
func nonStructural(c *crd) *condition {
	var errs field.ErrorList
	if c.Spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i := range c.Spec.Versions {
		version := &c.Spec.Versions[i]
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			continue
		}
		in := &apiextensions.CustomResourceValidation{}
		err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(version.Schema.DeepCopy(), in, nil)
		var structural *schema.Structural
		if err == nil {
			structural, err = schema.NewStructural(in.OpenAPIV3Schema)
		}
		if err != nil {
			return &condition{
				Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionUnknown, Reason: "StructuralError",
				Message: fmt.Sprintf("failed to check validation schema for version %s: %v", version.Name, err),
			}
		}
		errs = append(errs, schema.ValidateStructural(field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"), structural)...)
	}
	if len(errs) == 0 {
		return nil
	}
	return &condition{
		Type: apiextensionsv1.NonStructuralSchema, Status: apiextensionsv1.ConditionTrue, Reason: "Violations", Message: errs.ToAggregate().Error(),
	}
}

// judgeApproval records whether a definition in a group of Kubernetes' own has the annotation that such a
// definition needs. It reports whether the status changed.
func judgeApproval(c *crd) bool {
	if !apihelpers.IsProtectedCommunityGroup(c.Spec.Group) {
		return false
	}
	state, reason := apihelpers.GetAPIApprovalState(c.Annotations)
	next := condition{
		Type: apiextensionsv1.KubernetesAPIApprovalPolicyConformant, Status: apiextensionsv1.ConditionUnknown, Reason: "UnknownAnnotation", Message: reason,
	}
	switch state {
	case apihelpers.APIApprovalInvalid:
		next.Status, next.Reason = apiextensionsv1.ConditionFalse, "InvalidAnnotation"
	case apihelpers.APIApprovalMissing:
		next.Status, next.Reason = apiextensionsv1.ConditionFalse, "MissingAnnotation"
	case apihelpers.APIApproved:
		next.Status, next.Reason = apiextensionsv1.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		next.Status, next.Reason = apiextensionsv1.ConditionFalse, "UnapprovedAnnotation"
	}
	if apihelpers.IsCRDConditionEquivalent(&next, apihelpers.FindCRDCondition(c, next.Type)) {
		return false
	}
	setCondition(c, next)
	return true
}
