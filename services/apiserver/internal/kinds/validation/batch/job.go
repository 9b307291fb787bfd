package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/pod"
)

// Kubernetes' limits for jobs.
const (
	maxParallelismForIndexedJob             = 100_000
	maxFailedIndexesForIndexedJob           = 100_000
	completionsSoftLimit                    = 100_000
	parallelismLimitForHighCompletions      = 10_000
	maxFailedIndexesLimitForHighCompletions = 10_000
	maxManagedByLength                      = 63
)

// Labels by which a job finds its pods; the ones without a domain are the legacy form.
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

// Job validates a new job, whose selector has been generated already.
func Job(j *batchv1.Job) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&j.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, jobWhole(j, true)...)
	return errs
}

// JobUpdate validates an update of a job. What it does and how is immutable, but the placement of
// its pods may change until it starts.
func JobUpdate(j, old *batchv1.Job) field.ErrorList {
	had := old.Spec.Template.Labels
	errs := jobWhole(j, had[batchv1.JobNameLabel] != "" && had[batchv1.ControllerUidLabel] != "")
	path, spec, before := field.NewPath("spec"), &j.Spec, &old.Spec
	errs = append(errs, completionsUpdate(spec, before, path.Child("completions"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(spec.Selector, before.Selector, path.Child("selector"))...)
	errs = append(errs, templateUpdate(j, old, path.Child("template"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(spec.CompletionMode, before.CompletionMode, path.Child("completionMode"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(spec.PodFailurePolicy, before.PodFailurePolicy, path.Child("podFailurePolicy"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(spec.BackoffLimitPerIndex, before.BackoffLimitPerIndex, path.Child("backoffLimitPerIndex"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(spec.ManagedBy, before.ManagedBy, path.Child("managedBy"))...)
	return append(errs, apivalidation.ValidateImmutableField(spec.SuccessPolicy, before.SuccessPolicy, path.Child("successPolicy"))...)
}

// jobWhole checks everything in a job but its metadata. If prefixed is set, its pods must have the
// labels with a domain too.
func jobWhole(j *batchv1.Job, prefixed bool) field.ErrorList {
	path := field.NewPath("spec")
	errs := generatedSelector(j, prefixed)
	errs = append(errs, jobSpec(&j.Spec, path)...)
	if j.Spec.Selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(j.Spec.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !selector.Matches(labels.Set(j.Spec.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), j.Spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	if completions := j.Spec.Completions; indexed(&j.Spec) && completions != nil && *completions > 0 {
		last := fmt.Sprintf("%s-%d", j.Name, *completions-1)
		if len(utilvalidation.IsDNS1123Label(last)) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), j.Name, "will not able to create pod with invalid DNS label: "+last))
		}
	}
	return errs
}

// generatedSelector checks a job that does not bring its own selector: it must have the generated
// selector, and its pods the generated labels.
func generatedSelector(j *batchv1.Job, prefixed bool) field.ErrorList {
	if j.Spec.ManualSelector != nil && *j.Spec.ManualSelector || j.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if j.UID == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "uid"), ""))
	}
	expected := labels.Set{}
	want := func(label, value string) {
		expected[label] = value
		at := field.NewPath("spec", "template", "metadata", "labels").Key(label)
		is, ok := j.Spec.Template.Labels[label]
		switch {
		case !ok:
			errs = append(errs, field.Required(at, "must be '"+value+"'"))
		case is != value:
			errs = append(errs, field.Invalid(at, j.Spec.Template.Labels, "must be '"+value+"'"))
		}
	}
	want(legacyControllerUID, string(j.UID))
	want(legacyJobName, j.Name)
	if prefixed {
		want(batchv1.ControllerUidLabel, string(j.UID))
		want(batchv1.JobNameLabel, j.Name)
	}
	if selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !selector.Matches(expected) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), j.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// jobSpec checks what jobs and job templates share.
func jobSpec(spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
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
	errs = append(errs, pod.Template(&spec.Template, path.Child("template"))...)
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

// completionsUpdate allows an indexed job to grow and shrink, together with its parallelism.
func completionsUpdate(spec, old *batchv1.JobSpec, path *field.Path) field.ErrorList {
	if !indexed(spec) {
		return apivalidation.ValidateImmutableField(spec.Completions, old.Completions, path)
	}
	if apiequality.Semantic.DeepEqual(spec.Completions, old.Completions) || spec.Completions == nil {
		return nil
	}
	if spec.Parallelism == nil || *spec.Completions != *spec.Parallelism {
		return field.ErrorList{field.Invalid(path, *spec.Completions, fmt.Sprintf("can only be modified in tandem with %s", path.Root().Child("parallelism")))}
	}
	return nil
}

// templateUpdate forbids changes of a job's pods. The exceptions are their placement and resources
// while the job is suspended and none of them has started.
func templateUpdate(j, old *batchv1.Job, path *field.Path) field.ErrorList {
	now, before := &j.Spec.Template, &old.Spec.Template
	if old.Spec.Suspend != nil && *old.Spec.Suspend && old.Status.StartTime == nil {
		before = before.DeepCopy()
		before.Labels, before.Annotations = now.Labels, now.Annotations
		before.Spec.NodeSelector, before.Spec.Tolerations, before.Spec.SchedulingGates = now.Spec.NodeSelector, now.Spec.Tolerations, now.Spec.SchedulingGates
		before.Spec.Affinity = withNodeAffinity(before.Spec.Affinity, now.Spec.Affinity)
		keepResources(before.Spec.Containers, now.Spec.Containers)
		keepResources(before.Spec.InitContainers, now.Spec.InitContainers)
	}
	return apivalidation.ValidateImmutableField(*now, *before, path)
}

// withNodeAffinity returns an affinity with its node affinity taken from another.
func withNodeAffinity(old, now *corev1.Affinity) *corev1.Affinity {
	switch {
	case old == nil && now == nil:
		return nil
	case old == nil:
		return &corev1.Affinity{NodeAffinity: now.NodeAffinity}
	case now == nil:
		old.NodeAffinity = nil
		if *old == (corev1.Affinity{}) {
			return nil
		}
	default:
		old.NodeAffinity = now.NodeAffinity
	}
	return old
}

func keepResources(old, now []corev1.Container) {
	for i := range old {
		if i < len(now) {
			old[i].Resources = now[i].Resources
		}
	}
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
