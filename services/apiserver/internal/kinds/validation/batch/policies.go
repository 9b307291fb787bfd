package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kubernetes' limits for policies.
const (
	maxFailureRules     = 20
	maxExitCodes        = 255
	maxPodConditions    = 20
	maxSuccessRules     = 20
	maxSucceededIndexes = 64 * 1024
)

func replacementPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if spec.PodReplacementPolicy == nil {
		return nil
	}
	allowed := []batchv1.PodReplacementPolicy{batchv1.Failed, batchv1.TerminatingOrFailed}
	if spec.PodFailurePolicy != nil {
		allowed = allowed[:1]
	}
	if slices.Contains(allowed, *spec.PodReplacementPolicy) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, *spec.PodReplacementPolicy, allowed)}
}

func failurePolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	rules := spec.PodFailurePolicy.Rules
	path = path.Child("rules")
	if len(rules) > maxFailureRules {
		errs = append(errs, field.TooMany(path, len(rules), maxFailureRules))
	}
	names := sets.New[string]()
	for _, containers := range [][]corev1.Container{spec.Template.Spec.Containers, spec.Template.Spec.InitContainers} {
		for _, c := range containers {
			names.Insert(c.Name)
		}
	}
	for i := range rules {
		errs = append(errs, failureRule(spec, &rules[i], names, path.Index(i))...)
	}
	return errs
}

func failureRule(spec *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule, containers sets.Set[string], path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if rule.Action == batchv1.PodFailurePolicyActionFailIndex {
		if spec.BackoffLimitPerIndex == nil {
			errs = append(errs, field.Invalid(path.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set"))
		}
	} else {
		errs = append(errs, oneOf(rule.Action, path.Child("action"), batchv1.PodFailurePolicyActionCount,
			batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore)...)
	}
	if rule.OnExitCodes != nil {
		errs = append(errs, exitCodes(rule.OnExitCodes, containers, path.Child("onExitCodes"))...)
	}
	errs = append(errs, podConditions(rule.OnPodConditions, path.Child("onPodConditions"))...)
	switch codes, conditions := rule.OnExitCodes != nil, len(rule.OnPodConditions) > 0; {
	case codes && conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case !codes && !conditions:
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func podConditions(patterns []batchv1.PodFailurePolicyOnPodConditionsPattern, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(patterns) > maxPodConditions {
		errs = append(errs, field.TooMany(path, len(patterns), maxPodConditions))
	}
	for i, pattern := range patterns {
		at := path.Index(i)
		for _, msg := range utilvalidation.IsQualifiedName(string(pattern.Type)) {
			errs = append(errs, field.Invalid(at.Child("type"), string(pattern.Type), msg))
		}
		errs = append(errs, oneOf(pattern.Status, at.Child("status"), corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)...)
	}
	return errs
}

func exitCodes(codes *batchv1.PodFailurePolicyOnExitCodesRequirement, containers sets.Set[string], path *field.Path) field.ErrorList {
	errs := oneOf(codes.Operator, path.Child("operator"), batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn)
	if name := codes.ContainerName; name != nil && !containers.Has(*name) {
		errs = append(errs, field.Invalid(path.Child("containerName"), *name, "must be one of the container or initContainer names in the pod template"))
	}
	at := path.Child("values")
	switch count := len(codes.Values); {
	case count == 0:
		errs = append(errs, field.Invalid(at, codes.Values, "at least one value is required"))
	case count > maxExitCodes:
		errs = append(errs, field.TooMany(at, count, maxExitCodes))
	}
	seen := sets.New[int32]()
	for i, code := range codes.Values {
		if codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && code == 0 {
			errs = append(errs, field.Invalid(at.Index(i), code, "must not be 0 for the In operator"))
		}
		if seen.Has(code) {
			errs = append(errs, field.Duplicate(at.Index(i), code))
		}
		seen.Insert(code)
	}
	if !slices.IsSorted(codes.Values) {
		errs = append(errs, field.Invalid(at, codes.Values, "must be ordered"))
	}
	return errs
}

func successPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	path = path.Child("rules")
	rules := spec.SuccessPolicy.Rules
	if len(rules) == 0 {
		errs = append(errs, field.Required(path, "at least one rules must be specified when the successPolicy is specified"))
	}
	if len(rules) > maxSuccessRules {
		errs = append(errs, field.TooMany(path, len(rules), maxSuccessRules))
	}
	var completions int32
	if spec.Completions != nil { // Another check reports missing completions.
		completions = *spec.Completions
	}
	for i := range rules {
		errs = append(errs, successRule(&rules[i], completions, path.Index(i))...)
	}
	return errs
}

func successRule(rule *batchv1.SuccessPolicyRule, completions int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if rule.SucceededCount == nil && rule.SucceededIndexes == nil {
		errs = append(errs, field.Required(path, "at least one of succeededCount or succeededIndexes must be specified"))
	}
	var total int32
	if indexes := rule.SucceededIndexes; indexes != nil {
		at := path.Child("succeededIndexes")
		if len(*indexes) > maxSucceededIndexes {
			errs = append(errs, field.TooLong(at, *indexes, maxSucceededIndexes))
		}
		list, err := parseIndexes(*indexes, completions)
		if err != nil {
			errs = append(errs, field.Invalid(at, *indexes, "error parsing succeededIndexes: "+err.Error()))
		}
		total = list.total()
	}
	if wanted := rule.SucceededCount; wanted != nil {
		at := path.Child("succeededCount")
		errs = append(errs, nonnegative(wanted, at)...)
		if *wanted > completions {
			errs = append(errs, field.Invalid(at, *wanted, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
		}
		if rule.SucceededIndexes != nil && *wanted > total {
			errs = append(errs, field.Invalid(at, *wanted, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total)))
		}
	}
	return errs
}

// oneOf checks a field that must hold one of some values, which are sorted.
func oneOf[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q", allowed))}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(path, value, allowed)}
	}
	return nil
}
