package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// validateResourceQuota validates a resource quota.
func validateResourceQuota(q *corev1.ResourceQuota) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&q.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, quotaResources(q.Spec.Hard, field.NewPath("spec", "hard"))...)
	errs = append(errs, quotaScopes(&q.Spec, field.NewPath("spec", "scopes"))...)
	if q.Spec.ScopeSelector != nil {
		errs = append(errs, quotaSelector(&q.Spec, field.NewPath("spec", "scopeSelector", "matchExpressions"))...)
	}
	return errs
}

// validateResourceQuotaUpdate validates an update of a resource quota: its scopes are immutable.
func validateResourceQuotaUpdate(q, old *corev1.ResourceQuota) field.ErrorList {
	errs := validateResourceQuota(q)
	if !sameScopes(q.Spec.Scopes, old.Spec.Scopes) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "scopes"), q.Spec.Scopes, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

// sameScopes compares two sets of scopes.
func sameScopes(a, b []corev1.ResourceQuotaScope) bool {
	in := func(set []corev1.ResourceQuotaScope) func(corev1.ResourceQuotaScope) bool {
		return func(s corev1.ResourceQuotaScope) bool { return !slices.Contains(set, s) }
	}
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

// validateResourceQuotaStatus validates a resource quota's status.
func validateResourceQuotaStatus(q, _ *corev1.ResourceQuota) field.ErrorList {
	errs := quotaResources(q.Status.Hard, field.NewPath("status", "hard"))
	return append(errs, quotaResources(q.Status.Used, field.NewPath("status", "used"))...)
}

func quotaResources(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range resources.Sorted(list) {
		quantity, at := list[name], path.Key(string(name))
		errs = append(errs, resources.Name(name, at)...)
		if !strings.Contains(string(name), "/") && !resources.Quota(name) {
			errs = append(errs, field.Invalid(at, string(name), "must be a standard resource for quota"))
		}
		errs = append(errs, resourceQuantity(name, quantity, at)...)
	}
	return errs
}

func quotaScopes(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, scope := range spec.Scopes {
		if !knownScope(scope) {
			errs = append(errs, field.Invalid(path, spec.Scopes, "unsupported scope"))
		}
		errs = append(errs, scopeFits(scope, spec, path, spec.Scopes)...)
	}
	return append(errs, scopeConflicts(spec.Scopes, path, spec)...)
}

func quotaSelector(spec *corev1.ResourceQuotaSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var names []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		names = append(names, r.ScopeName)
		if !knownScope(r.ScopeName) {
			errs = append(errs, field.Invalid(path.Child("scopeName"), r.ScopeName, "unsupported scope"))
		}
		errs = append(errs, scopeFits(r.ScopeName, spec, path, spec.ScopeSelector)...)
		errs = append(errs, scopeOperator(r, path)...)
	}
	return append(errs, scopeConflicts(names, path, spec)...)
}

func scopeOperator(r corev1.ScopedResourceSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.ScopeName {
	case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
		corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		if r.Operator != corev1.ScopeSelectorOpExists {
			errs = append(errs, field.Invalid(path.Child("operator"), r.Operator,
				"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"))
		}
	}
	switch r.Operator {
	case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(path.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"))
		}
	case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
		if len(r.Values) != 0 {
			errs = append(errs, field.Invalid(path.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	return errs
}

// scopeFits checks that a scope can limit the quota's resources.
func scopeFits(scope corev1.ResourceQuotaScope, spec *corev1.ResourceQuotaSpec, path *field.Path, value any) field.ErrorList {
	var errs field.ErrorList
	for _, name := range resources.Sorted(spec.Hard) {
		if resources.Quota(name) && !scopeCovers(scope, name) {
			errs = append(errs, field.Invalid(path, value, "unsupported scope applied to resource"))
		}
	}
	return errs
}

func scopeConflicts(scopes []corev1.ResourceQuotaScope, path *field.Path, spec *corev1.ResourceQuotaSpec) field.ErrorList {
	var errs field.ErrorList
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		if slices.Contains(scopes, pair[0]) && slices.Contains(scopes, pair[1]) {
			errs = append(errs, field.Invalid(path, spec.Scopes, "conflicting scopes"))
		}
	}
	return errs
}

func knownScope(scope corev1.ResourceQuotaScope) bool {
	switch scope {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
		corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass,
		corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass:
		return true
	}
	return false
}

// scopeCovers reports whether the objects that a scope selects use a resource.
func scopeCovers(scope corev1.ResourceQuotaScope, name corev1.ResourceName) bool {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		switch name {
		case corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
			corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory:
			return true
		}
		return false
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	}
	return true
}
