package batch

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
)

// Job defines the kind Job.
func Job() *kinds.Definition {
	type job = *batchv1.Job
	specStatus := kinds.SpecStatusOf(func(j job) (*batchv1.JobSpec, *batchv1.JobStatus) { return &j.Spec, &j.Status })
	s := kinds.Of[job]{
		Columns: jobColumns(),
		Level:   kinds.Full,
		Default: defaultJob,
		Create: func(j job) {
			specStatus.Begin(j)
			j.Spec.Scheduling = nil
			if j.Spec.ManualSelector == nil || !*j.Spec.ManualSelector {
				generateSelector(j)
			}
		},
		Validate:     validateJob,
		Canonicalize: ownLabels,
		Update: kinds.ChangeOf[job]{
			Prepare: func(j, old job) {
				if old.Spec.Scheduling == nil {
					j.Spec.Scheduling = nil
				}
				specStatus.KeepStatus(j, old)
			},
			Validate: validateJobUpdate,
			Warnings: kinds.IfSpecChanged(func(j job) []string { return jobWarnings(&j.Spec, field.NewPath("spec")) }),
		},
		Subresources:     map[string]kinds.ChangeOf[job]{"status": {Prepare: specStatus.KeepSpec, Validate: validateJobStatus}},
		Warnings:         func(j job) []string { return jobWarnings(&j.Spec, field.NewPath("spec")) },
		CreationWarnings: func(j job) []string { return podtemplate.WorkloadNameWarnings(j.Name) },
		FieldLabels:      []string{"status.successful"},
		Fields:           func(j job) fields.Set { return fields.Set{"status.successful": strconv.Itoa(int(j.Status.Succeeded))} },
	}.Definition()
	s.Orphans = true
	s.Renamed = func(obj scheme.Object, taken string) { renameJob(obj.(job), taken) }
	return s
}

// backoffLimit is the default number of retries of a job.
const backoffLimit = 6

// defaultJob sets the defaults of a job. A job without labels shares its template's, so that it also gets
// those that generateSelector adds.
func defaultJob(j *batchv1.Job) {
	defaultJobTemplate(&j.Spec)
	if j.Spec.Parallelism == nil {
		if j.Spec.Completions == nil {
			j.Spec.Completions = new(int32(1))
		}
		j.Spec.Parallelism = new(int32(1))
	}
	limit := int32(backoffLimit)
	if j.Spec.BackoffLimitPerIndex != nil {
		limit = math.MaxInt32
	}
	kinds.Fill(&j.Spec.BackoffLimit, limit)
	kinds.Fill(&j.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	kinds.Fill(&j.Spec.Suspend, false)
	replacement := batchv1.TerminatingOrFailed
	if j.Spec.PodFailurePolicy != nil {
		replacement = batchv1.Failed
	}
	kinds.Fill(&j.Spec.PodReplacementPolicy, replacement)
	kinds.Fill(&j.Spec.ManualSelector, false)
	if len(j.Labels) == 0 {
		j.Labels = j.Spec.Template.Labels
	}
}

// jobStatus returns the most significant condition of a job.
func jobStatus(j *batchv1.Job) string {
	is := func(kind batchv1.JobConditionType) bool {
		for _, c := range j.Status.Conditions {
			if c.Type == kind {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
	switch {
	case is(batchv1.JobComplete):
		return string(batchv1.JobComplete)
	case is(batchv1.JobFailed):
		return string(batchv1.JobFailed)
	case j.DeletionTimestamp != nil:
		return "Terminating"
	case is(batchv1.JobSuspended):
		return string(batchv1.JobSuspended)
	case is(batchv1.JobFailureTarget):
		return string(batchv1.JobFailureTarget)
	case is(batchv1.JobSuccessCriteriaMet):
		return string(batchv1.JobSuccessCriteriaMet)
	}
	return "Running"
}

func jobCompletions(j *batchv1.Job) string {
	switch {
	case j.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", j.Status.Succeeded, *j.Spec.Completions)
	case j.Spec.Parallelism != nil && *j.Spec.Parallelism > 1:
		return fmt.Sprintf("%d/1 of %d", j.Status.Succeeded, *j.Spec.Parallelism)
	}
	return fmt.Sprintf("%d/1", j.Status.Succeeded)
}

// jobDuration returns how long a job took, or has been running.
func jobDuration(j *batchv1.Job, now time.Time) string {
	if j.Status.StartTime == nil {
		return ""
	}
	if j.Status.CompletionTime != nil {
		now = j.Status.CompletionTime.Time
	}
	return duration.HumanDuration(now.Sub(j.Status.StartTime.Time))
}

// Kubernetes' limits for jobs.
const (
	maxParallelismForIndexedJob             = 100_000
	maxFailedIndexesForIndexedJob           = 100_000
	completionsSoftLimit                    = 100_000
	parallelismLimitForHighCompletions      = 10_000
	maxFailedIndexesLimitForHighCompletions = 10_000
	maxManagedByLength                      = 63
)

// jobSpec checks what jobs and job templates share; was is the pod template that an update replaces, nil at
// creation.
func jobSpec(spec *batchv1.JobSpec, was *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	errs = append(errs, nonnegative(spec.Parallelism, path.Child("parallelism"))...)
	errs = append(errs, nonnegative(spec.Completions, path.Child("completions"))...)
	errs = append(errs, nonnegative(spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))...)
	errs = append(errs, nonnegative(spec.BackoffLimit, path.Child("backoffLimit"))...)
	errs = append(errs, nonnegative(spec.TTLSecondsAfterFinished, path.Child("ttlSecondsAfterFinished"))...)
	errs = append(errs, nonnegative(spec.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex"))...)
	errs = append(errs, nonnegative(spec.MaxFailedIndexes, path.Child("maxFailedIndexes"))...)
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(path.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if spec.ManagedBy != nil {
		errs = append(errs, utilvalidation.IsDomainPrefixedPath(path.Child("managedBy"), *spec.ManagedBy)...)
		if len(*spec.ManagedBy) > maxManagedByLength {
			errs = append(errs, field.TooLong(path.Child("managedBy"), *spec.ManagedBy, maxManagedByLength))
		}
	}
	errs = append(errs, completionMode(spec, path)...)
	if spec.PodFailurePolicy != nil {
		errs = append(errs, failurePolicy(spec, path.Child("podFailurePolicy"))...)
	}
	if spec.SuccessPolicy != nil {
		if indexed(spec) {
			errs = append(errs, successPolicy(spec, path.Child("successPolicy"))...)
		} else {
			errs = append(errs, field.Invalid(path.Child("successPolicy"), *spec.SuccessPolicy, "requires indexed completion mode"))
		}
	}
	errs = append(errs, replacementPolicy(spec, path.Child("podReplacementPolicy"))...)
	errs = append(errs, podspec.Template(&spec.Template, was, path.Child("template"))...)
	return append(errs, restartPolicy(spec, path.Child("template", "spec", "restartPolicy"))...)
}

func completionMode(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if mode := spec.CompletionMode; mode != nil && *mode != batchv1.NonIndexedCompletion && *mode != batchv1.IndexedCompletion {
		errs = append(errs, field.NotSupported(path.Child("completionMode"), *mode, []batchv1.CompletionMode{batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
	}
	if indexed(spec) {
		return append(errs, indexedSpec(spec, path)...)
	}
	if spec.CompletionMode != nil && *spec.CompletionMode != batchv1.NonIndexedCompletion {
		return errs
	}
	if spec.BackoffLimitPerIndex != nil {
		errs = append(errs, field.Invalid(path.Child("backoffLimitPerIndex"), *spec.BackoffLimitPerIndex, "requires indexed completion mode"))
	}
	if spec.MaxFailedIndexes != nil {
		errs = append(errs, field.Invalid(path.Child("maxFailedIndexes"), *spec.MaxFailedIndexes, "requires indexed completion mode"))
	}
	return errs
}

// indexedSpec checks the numbers of an indexed job: they must not make its status too long.
func indexedSpec(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	atMost := func(name string, value *int32, limit int32, format string, args ...any) {
		if value != nil && *value > limit {
			errs = append(errs, field.Invalid(path.Child(name), *value, fmt.Sprintf(format, args...)))
		}
	}
	if spec.Completions == nil {
		errs = append(errs, field.Required(path.Child("completions"), fmt.Sprintf("when completion mode is %s", batchv1.IndexedCompletion)))
	}
	atMost("parallelism", spec.Parallelism, maxParallelismForIndexedJob,
		"must be less than or equal to %d when completion mode is %s", maxParallelismForIndexedJob, batchv1.IndexedCompletion)
	if spec.Completions != nil {
		atMost("maxFailedIndexes", spec.MaxFailedIndexes, *spec.Completions, "must be less than or equal to completions")
	}
	atMost("maxFailedIndexes", spec.MaxFailedIndexes, maxFailedIndexesForIndexedJob, "must be less than or equal to %d", maxFailedIndexesForIndexedJob)
	if spec.Completions == nil || *spec.Completions <= completionsSoftLimit || spec.BackoffLimitPerIndex == nil {
		return errs
	}
	if spec.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(path.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", completionsSoftLimit)))
	}
	const high = "must be less than or equal to %d when completions are above %d and used with backoff limit per index"
	atMost("parallelism", spec.Parallelism, parallelismLimitForHighCompletions, high, parallelismLimitForHighCompletions, completionsSoftLimit)
	atMost("maxFailedIndexes", spec.MaxFailedIndexes, maxFailedIndexesLimitForHighCompletions, high, maxFailedIndexesLimitForHighCompletions, completionsSoftLimit)
	return errs
}

// restartPolicy checks that a job's pods can end. Always, the default for pods, counts as missing,
// because it never lets them.
func restartPolicy(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	policy := spec.Template.Spec.RestartPolicy
	switch {
	case policy == corev1.RestartPolicyAlways || policy == "":
		return field.ErrorList{field.Required(path, fmt.Sprintf("valid values: %q, %q", corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever))}
	case policy != corev1.RestartPolicyOnFailure && policy != corev1.RestartPolicyNever:
		return field.ErrorList{field.NotSupported(path, policy, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	case spec.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever:
		return field.ErrorList{field.Invalid(path, policy, fmt.Sprintf("only %q is supported when podFailurePolicy is specified", corev1.RestartPolicyNever))}
	}
	return nil
}

func indexed(spec *batchv1.JobSpec) bool {
	return spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
}

func nonnegative[T int32 | int64](value *T, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*value), path)
}

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
