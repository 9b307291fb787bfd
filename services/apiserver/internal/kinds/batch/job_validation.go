package batch

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// disjoint checks that no index is in both of two lists. Unreadable parts are skipped: another
// check reports them.
func disjoint(completed, failed string, completions int32) error {
	if completed == "" || failed == "" {
		return nil
	}
	a, b := readable(completed, completions), readable(failed, completions)
	for len(a) > 0 && len(b) > 0 {
		if a[0].first <= b[0].last && b[0].first <= a[0].last {
			return fmt.Errorf("failedIndexes and completedIndexes overlap at index: %d", max(a[0].first, b[0].first))
		}
		if a[0].first <= b[0].first {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return nil
}

func readable(text string, completions int32) intervals {
	var list intervals
	for part := range strings.SplitSeq(text, ",") {
		if i, err := parseInterval(part, completions); err == nil {
			list = append(list, i)
		}
	}
	return list
}

// Labels by which a job finds its pods; the ones without a domain are the legacy form.
const (
	legacyJobName       = "job-name"
	legacyControllerUID = "controller-uid"
)

// validateJob validates a new job, whose selector has been generated already.
func validateJob(j *batchv1.Job) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&j.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, generatedSelector(j)...)
	return append(errs, jobWhole(j, nil)...)
}

// validateJobUpdate validates an update of a job. What it does and how is immutable, but the placement of
// its pods may change until it starts.
func validateJobUpdate(j, old *batchv1.Job) field.ErrorList {
	errs := jobWhole(j, &old.Spec.Template)
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

// jobWhole checks everything in a job but its metadata; was is the template that an update replaces, nil at
// creation.
func jobWhole(j *batchv1.Job, was *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := jobSpec(&j.Spec, was, path)
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

// generatedSelector checks a new job that does not bring its own selector: it must have the generated
// selector, and its pods the generated labels.
func generatedSelector(j *batchv1.Job) field.ErrorList {
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
	want(batchv1.ControllerUidLabel, string(j.UID))
	want(batchv1.JobNameLabel, j.Name)
	if selector, err := metav1.LabelSelectorAsSelector(j.Spec.Selector); err == nil && !selector.Matches(expected) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), j.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
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

// templateUpdate forbids changes of a job's pods. The exceptions are their metadata, placement and resources
// while the job is suspended and has no pods.
func templateUpdate(j, old *batchv1.Job, path *field.Path) field.ErrorList {
	now, before := &j.Spec.Template, &old.Spec.Template
	if !idle(old) {
		return apivalidation.ValidateImmutableField(*now, *before, path)
	}
	spec := before.Spec.DeepCopy()
	spec.NodeSelector, spec.Tolerations, spec.SchedulingGates = now.Spec.NodeSelector, now.Spec.Tolerations, now.Spec.SchedulingGates
	spec.Affinity = withNodeAffinity(spec.Affinity, now.Spec.Affinity)
	keepResources(spec.Containers, now.Spec.Containers)
	keepResources(spec.InitContainers, now.Spec.InitContainers)
	return apivalidation.ValidateImmutableField(now.Spec, *spec, path.Child("spec"))
}

// idle reports whether a job is suspended and has no pods: it has not started, or its controller has
// removed them.
func idle(j *batchv1.Job) bool {
	if j.Spec.Suspend == nil || !*j.Spec.Suspend || j.Status.Active != 0 {
		return false
	}
	return j.Status.StartTime == nil || slices.ContainsFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
	})
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
	if len(old) != len(now) {
		return
	}
	for i := range old {
		if old[i].Name == now[i].Name {
			old[i].Resources = now[i].Resources
		}
	}
}

// validateJobStatus validates an update of a job's status. A rule that compares fields applies only when
// one of them changes, since a change of the spec may break it for a while.
func validateJobStatus(j, old *batchv1.Job) field.ErrorList {
	c := statusChange{job: j, old: old, path: field.NewPath("status")}
	c.numbers()
	c.uncounted()
	c.conditions()
	c.times()
	c.indexes()
	c.transitions()
	return c.errs
}

// statusChange collects the errors in a change of a job's status.
type statusChange struct {
	job, old *batchv1.Job
	path     *field.Path
	errs     field.ErrorList
}

func (c *statusChange) invalid(name string, value any, reason string) {
	c.errs = append(c.errs, field.Invalid(c.path.Child(name), value, reason))
}

func (c *statusChange) required(name, reason string) {
	c.errs = append(c.errs, field.Required(c.path.Child(name), reason))
}

// condition reports an error in the conditions.
func (c *statusChange) condition(reason string) {
	c.invalid("conditions", field.OmitValueType{}, reason)
}

// turned reports whether one of some conditions has become true or ceased to be.
func (c *statusChange) turned(kinds ...batchv1.JobConditionType) bool {
	for _, kind := range kinds {
		if is(c.job, kind) != is(c.old, kind) {
			return true
		}
	}
	return false
}

func (c *statusChange) numbers() {
	s := &c.job.Status
	for _, n := range []struct {
		name  string
		value *int32
	}{{"active", &s.Active}, {"succeeded", &s.Succeeded}, {"failed", &s.Failed}, {"ready", s.Ready}, {"terminating", s.Terminating}} {
		c.errs = append(c.errs, nonnegative(n.value, c.path.Child(n.name))...)
	}
	if (c.finishedChanged() || s.Active != c.old.Status.Active) && s.Active > 0 && finished(c.job) {
		c.invalid("active", s.Active, "active>0 is invalid for finished job")
	}
	if (c.finishedChanged() || !apiequality.Semantic.DeepEqual(s.Terminating, c.old.Status.Terminating)) && s.Terminating != nil && *s.Terminating > 0 && finished(c.job) {
		c.invalid("terminating", *s.Terminating, "terminating>0 is invalid for finished job")
	}
	if (s.Active != c.old.Status.Active || !apiequality.Semantic.DeepEqual(s.Ready, c.old.Status.Ready)) && s.Ready != nil && *s.Ready > s.Active {
		c.invalid("ready", *s.Ready, "cannot set more ready pods than active")
	}
}

func (c *statusChange) uncounted() {
	pods := c.job.Status.UncountedTerminatedPods
	if pods == nil {
		return
	}
	seen, path := sets.New[types.UID](), c.path.Child("uncountedTerminatedPods")
	for _, list := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", pods.Succeeded}, {"failed", pods.Failed}} {
		for i, uid := range list.uids {
			at := path.Child(list.name).Index(i)
			switch {
			case uid == "":
				c.errs = append(c.errs, field.Invalid(at, uid, "must not be empty"))
			case seen.Has(uid):
				c.errs = append(c.errs, field.Duplicate(at, uid))
			}
			seen.Insert(uid)
		}
	}
	changed := c.finishedChanged() || !apiequality.Semantic.DeepEqual(pods, c.old.Status.UncountedTerminatedPods)
	if changed && finished(c.job) && len(pods.Failed)+len(pods.Succeeded) > 0 {
		c.invalid("uncountedTerminatedPods", pods, "uncountedTerminatedPods needs to be empty for finished job")
	}
}

func (c *statusChange) conditions() {
	complete, failed := is(c.job, batchv1.JobComplete), is(c.job, batchv1.JobFailed)
	target, met := is(c.job, batchv1.JobFailureTarget), is(c.job, batchv1.JobSuccessCriteriaMet)
	if c.turned(batchv1.JobComplete, batchv1.JobFailed) && complete && failed {
		c.condition("cannot set Complete=True and Failed=true conditions")
	}
	if c.turned(batchv1.JobComplete, batchv1.JobFailureTarget) && complete && target {
		c.condition("cannot set Complete=True and FailureTarget=true conditions")
	}
	if c.turned(batchv1.JobFailed) && failed && !target {
		c.condition("cannot set Failed=True condition without the FailureTarget=true condition")
	}
	if c.turned(batchv1.JobComplete) && complete && !met {
		c.condition("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
	}
	if met && failed {
		c.condition("cannot set SuccessCriteriaMet=True and Failed=true conditions")
	}
	if met && target {
		c.condition("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	}
	if c.job.Spec.SuccessPolicy != nil && !met && complete {
		c.condition("cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
	}
}

func (c *statusChange) times() {
	now, before := &c.job.Status, &c.old.Status
	complete := is(c.job, batchv1.JobComplete)
	start := !now.StartTime.Equal(before.StartTime)
	completion := !now.CompletionTime.Equal(before.CompletionTime)
	if c.turned(batchv1.JobComplete) || completion {
		if now.CompletionTime != nil && !complete {
			c.invalid("completionTime", now.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
		}
		if now.CompletionTime == nil && complete {
			c.required("completionTime", "completionTime is required for Complete jobs")
		}
	}
	if (start || completion) && now.StartTime != nil && now.CompletionTime != nil && now.CompletionTime.Before(now.StartTime) {
		c.invalid("completionTime", now.CompletionTime, "completionTime cannot be set before startTime")
	}
	if (c.finishedChanged() || start) && now.StartTime == nil && finished(c.job) {
		c.required("startTime", "startTime is required for finished job")
	}
	if completion && now.CompletionTime != nil && before.CompletionTime != nil {
		c.invalid("completionTime", now.CompletionTime, "completionTime cannot be mutated")
	}
	if start && before.StartTime != nil && (c.job.Spec.Suspend == nil || !*c.job.Spec.Suspend) {
		c.required("startTime", "startTime cannot be removed for unsuspended job")
	}
}

func (c *statusChange) indexes() {
	now, before, spec := &c.job.Status, &c.old.Status, &c.job.Spec
	completed, failed := now.CompletedIndexes != before.CompletedIndexes, !apiequality.Semantic.DeepEqual(now.FailedIndexes, before.FailedIndexes)
	if completed && spec.Completions != nil {
		if _, err := parseIndexes(now.CompletedIndexes, *spec.Completions); err != nil {
			c.invalid("completedIndexes", now.CompletedIndexes, "error parsing completedIndexes: "+err.Error())
		}
	}
	if failed && spec.Completions != nil && spec.BackoffLimitPerIndex != nil && now.FailedIndexes != nil {
		if _, err := parseIndexes(*now.FailedIndexes, *spec.Completions); err != nil {
			c.invalid("failedIndexes", *now.FailedIndexes, "error parsing failedIndexes: "+err.Error())
		}
	}
	if completed && now.CompletedIndexes != "" && !indexed(spec) {
		c.invalid("completedIndexes", now.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	}
	if failed && spec.BackoffLimitPerIndex == nil && now.FailedIndexes != nil {
		c.invalid("failedIndexes", *now.FailedIndexes, "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	}
	if (completed || failed) && spec.Completions != nil && now.FailedIndexes != nil {
		if err := disjoint(now.CompletedIndexes, *now.FailedIndexes, *spec.Completions); err != nil {
			c.invalid("failedIndexes", *now.FailedIndexes, err.Error())
		}
	}
}

// transitions rejects changes that undo what the status said before.
func (c *statusChange) transitions() {
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		if is(c.old, kind) && !is(c.job, kind) {
			c.condition(fmt.Sprintf("cannot disable the terminal %s=True condition", kind))
		}
	}
	now, before, spec := &c.job.Status, &c.old.Status, &c.job.Spec
	if now.Failed < before.Failed {
		c.invalid("failed", now.Failed, "cannot decrease the failed counter")
	}
	elastic := indexed(spec) && apiequality.Semantic.DeepEqual(spec.Completions, spec.Parallelism)
	if now.Succeeded < before.Succeeded && !elastic {
		c.invalid("succeeded", now.Succeeded, "cannot decrease the succeeded counter")
	}
	if is(c.old, batchv1.JobSuccessCriteriaMet) && !is(c.job, batchv1.JobSuccessCriteriaMet) {
		c.condition("cannot disable the SuccessCriteriaMet=True condition")
	}
	if is(c.old, batchv1.JobComplete) && !is(c.old, batchv1.JobSuccessCriteriaMet) && is(c.job, batchv1.JobSuccessCriteriaMet) {
		c.condition("cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	}
}

func (c *statusChange) finishedChanged() bool { return finished(c.job) != finished(c.old) }

func finished(j *batchv1.Job) bool { return is(j, batchv1.JobComplete) || is(j, batchv1.JobFailed) }

func is(j *batchv1.Job, kind batchv1.JobConditionType) bool {
	for _, condition := range j.Status.Conditions {
		if condition.Type == kind && condition.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
