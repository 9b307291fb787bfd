package pod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// resourceClaims checks a pod's claims for devices, and that its containers and the pod itself use
// no others. podName is empty for templates. A claim created from a template is named after both
// the pod and the claim.
func resourceClaims(spec *corev1.PodSpec, podName string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := sets.New[string]()
	for i, claim := range spec.ResourceClaims {
		at := path.Child("resourceClaims").Index(i)
		errs = append(errs, claimName(claim, podName, names, at.Child("name"))...)
		switch {
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			errs = append(errs, field.Invalid(at, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil:
			errs = append(errs, field.Invalid(at, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if name := claim.ResourceClaimName; name != nil {
			errs = append(errs, invalid(at.Child("resourceClaimName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
		}
		if name := claim.ResourceClaimTemplateName; name != nil {
			errs = append(errs, invalid(at.Child("resourceClaimTemplateName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
		}
	}
	EachContainer(spec, path, func(c *corev1.Container, at *field.Path) {
		errs = append(errs, claimed(c.Resources.Claims, names, at.Child("resources", "claims"))...)
	})
	return errs
}

func claimName(claim corev1.PodResourceClaim, podName string, taken sets.Set[string], path *field.Path) field.ErrorList {
	switch {
	case claim.Name == "":
		return field.ErrorList{field.Required(path, "")}
	case taken.Has(claim.Name):
		return field.ErrorList{field.Duplicate(path, claim.Name)}
	}
	taken.Insert(claim.Name)
	if errs := invalid(path, claim.Name, validation.IsDNS1123Label(claim.Name)); len(errs) > 0 {
		return errs
	}
	if podName == "" || claim.ResourceClaimTemplateName == nil {
		return nil
	}
	var errs field.ErrorList
	whole := podName + "-" + claim.Name
	for _, msg := range apivalidation.NameIsDNSSubdomain(whole, false) {
		errs = append(errs, field.Invalid(path, whole, "final ResourceClaim name: "+msg))
	}
	return errs
}

// claimed checks that the references to claims name claims of the pod, each once.
func claimed(claims []corev1.ResourceClaim, names sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen, whole := sets.New[string](), sets.New[string]()
	for i, claim := range claims {
		at, value := path.Index(i), claim.Name
		if claim.Request != "" {
			value += "/" + claim.Request
		}
		switch {
		case claim.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		case seen.Has(value), claim.Request != "" && whole.Has(claim.Name), claim.Request == "" && hasPrefix(seen, claim.Name+"/"):
			errs = append(errs, field.Duplicate(at, value))
		}
		seen.Insert(value)
		if claim.Request == "" {
			whole.Insert(claim.Name)
		}
		if names.Has(claim.Name) {
			continue
		}
		err := field.NotFound(at.Child("name"), claim.Name)
		err.Detail = "must be one of the names in pod.spec.resourceClaims"
		if names.Len() == 0 {
			err.Detail += " which is empty"
		} else {
			err.Detail += ": " + strings.Join(sets.List(names), ", ")
		}
		errs = append(errs, err)
	}
	return errs
}

func hasPrefix(values sets.Set[string], prefix string) bool {
	for value := range values {
		if strings.HasPrefix(value, prefix) {
			return true
		}
	}
	return false
}

// EachContainer calls do for every container of every type, with its path.
func EachContainer(spec *corev1.PodSpec, path *field.Path, do func(c *corev1.Container, at *field.Path)) {
	for i := range spec.InitContainers {
		do(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		do(&spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		do(&c, path.Child("ephemeralContainers").Index(i))
	}
}
