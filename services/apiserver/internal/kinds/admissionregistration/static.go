package admissionregistration

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
)

// StaticSuffix ends the names of configurations that come from files. No object of the API has one.
const StaticSuffix = ".static.k8s.io"

func staticText() string {
	return fmt.Sprintf("names ending with %q are reserved for static manifest-based configurations and cannot be managed via the API", StaticSuffix)
}

// unreserved adds to what validates new objects that they have no name of a configuration from files.
func unreserved[T scheme.Object](validate func(T) field.ErrorList) func(T) field.ErrorList {
	return func(obj T) field.ErrorList {
		errs := validate(obj)
		if strings.HasSuffix(obj.GetName(), StaticSuffix) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), staticText()))
		}
		return errs
	}
}

// reservedName warns of an object whose name is reserved by now.
func reservedName[T scheme.Object](obj, _ T) []string {
	if !strings.HasSuffix(obj.GetName(), StaticSuffix) {
		return nil
	}
	return []string{"metadata.name: " + staticText()}
}

// CompleteStatic sets the defaults of a configuration from a file, and returns the errors in it. Its name
// is not checked. An object of another kind is an error.
func CompleteStatic(obj scheme.Object) field.ErrorList {
	v := newValidator()
	switch obj := obj.(type) {
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		defaultValidatingWebhooks(obj)
		return v.validatingWebhooks(obj)
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		defaultMutatingWebhooks(obj)
		return v.mutatingWebhooks(obj)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		defaultValidatingPolicy(obj)
		return v.validatingPolicy(obj)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		defaultValidatingPolicyBinding(obj)
		return validateValidatingPolicyBinding(obj)
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		defaultMutatingPolicy(obj)
		return v.mutatingPolicy(obj)
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		defaultMutatingPolicyBinding(obj)
		return validateMutatingPolicyBinding(obj)
	}
	return field.ErrorList{field.InternalError(nil, fmt.Errorf("unsupported resource type %T", obj))}
}
