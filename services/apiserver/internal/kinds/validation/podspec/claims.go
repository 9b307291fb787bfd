package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// resourceClaims checks a pod's claims for devices. pod is nil for templates.
func resourceClaims(spec *corev1.PodSpec, pod *corev1.Pod, path *field.Path) field.ErrorList {
	if _, static := annotated(pod, corev1.MirrorPodAnnotationKey); static && len(spec.ResourceClaims) > 0 {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support resource claims")}
	}
	var errs field.ErrorList
	names := sets.New[string]()
	for i, claim := range spec.ResourceClaims {
		at := path.Child("resourceClaims").Index(i)
		errs = append(errs, claimName(claim, names, at.Child("name"))...)
		switch {
		case claim.ResourceClaimName != nil && claim.ResourceClaimTemplateName != nil:
			errs = append(errs, field.Invalid(at, claim, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case claim.ResourceClaimName == nil && claim.ResourceClaimTemplateName == nil:
			errs = append(errs, field.Invalid(at, claim, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if name := claim.ResourceClaimName; name != nil {
			errs = append(errs, values.Invalid(at.Child("resourceClaimName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
		}
		if name := claim.ResourceClaimTemplateName; name != nil {
			errs = append(errs, values.Invalid(at.Child("resourceClaimTemplateName"), *name, apivalidation.NameIsDNSSubdomain(*name, false))...)
		}
	}
	return errs
}

func annotated(pod *corev1.Pod, key string) (string, bool) {
	if pod == nil {
		return "", false
	}
	value, ok := pod.Annotations[key]
	return value, ok
}

// claimNames returns the names of a pod's claims for devices.
func claimNames(spec *corev1.PodSpec) sets.Set[string] {
	names := sets.New[string]()
	for _, claim := range spec.ResourceClaims {
		if claim.Name != "" {
			names.Insert(claim.Name)
		}
	}
	return names
}

func claimName(claim corev1.PodResourceClaim, taken sets.Set[string], path *field.Path) field.ErrorList {
	switch {
	case claim.Name == "":
		return field.ErrorList{field.Required(path, "")}
	case taken.Has(claim.Name):
		return field.ErrorList{field.Duplicate(path, claim.Name)}
	}
	taken.Insert(claim.Name)
	return values.Invalid(path, claim.Name, validation.IsDNS1123Label(claim.Name))
}

// claimed checks that references to claims or their requests name claims of the pod, each once.
func claimed(claims []corev1.ResourceClaim, names sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, claim := range claims {
		at := path.Index(i)
		if claim.Name == "" {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		errs = append(errs, claimedOnce(claim, seen, at)...)
		if names.Has(claim.Name) {
			continue
		}
		err := field.NotFound(at, claim.Name)
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

// claimedOnce checks that a reference does not overlap with those seen before.
func claimedOnce(claim corev1.ResourceClaim, seen sets.Set[string], path *field.Path) field.ErrorList {
	if seen.Has(claim.Name) {
		return field.ErrorList{field.Duplicate(path, claim.Name)}
	}
	var errs field.ErrorList
	key := claim.Name
	if claim.Request != "" {
		errs = values.Invalid(path.Child("request"), claim.Request, validation.IsDNS1123Label(claim.Request))
		key += "/" + claim.Request
	}
	if seen.Has(key) || claim.Request == "" && hasPrefix(seen, key+"/") {
		errs = append(errs, field.Duplicate(path, key))
	}
	seen.Insert(key)
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
