package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// maxController bounds the name of an ingress class's controller, in bytes.
const maxController = 250

// validateIngressClass validates an ingress class.
func validateIngressClass(c *networkingv1.IngressClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	if len(c.Spec.Controller) > maxController {
		errs = append(errs, field.TooLong(path.Child("controller"), "", maxController))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(path.Child("controller"), c.Spec.Controller)...)
	return append(errs, classParameters(c.Spec.Parameters, path.Child("parameters"))...)
}

// validateIngressClassUpdate validates an update of an ingress class, whose controller is immutable.
func validateIngressClassUpdate(c, old *networkingv1.IngressClass) field.ErrorList {
	errs := apivalidation.ValidateImmutableField(c.Spec.Controller, old.Spec.Controller, field.NewPath("spec", "controller"))
	return append(errs, validateIngressClass(c)...)
}

func classParameters(p *networkingv1.IngressClassParametersReference, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := object(p.APIGroup, p.Kind, p.Name, path)
	if p.Scope == nil {
		return append(errs, field.Required(path.Child("scope"), ""))
	}
	at := path.Child("namespace")
	switch *p.Scope {
	case networkingv1.IngressClassParametersReferenceScopeNamespace:
		if p.Namespace == nil {
			return append(errs, field.Required(at, "`parameters.scope` is set to 'Namespace'"))
		}
		return append(errs, values.Invalid(at, *p.Namespace, apivalidation.ValidateNamespaceName(*p.Namespace, false))...)
	case networkingv1.IngressClassParametersReferenceScopeCluster:
		if p.Namespace != nil {
			errs = append(errs, field.Forbidden(at, "`parameters.scope` is set to 'Cluster'"))
		}
		return errs
	}
	return append(errs, field.NotSupported(path.Child("scope"), *p.Scope, []string{
		networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace,
	}))
}
