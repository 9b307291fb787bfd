package batch

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// JobStatus validates an update of a job's status. A rule that compares fields applies only when
// one of them changes, since a change of the spec may break it for a while.
func JobStatus(j, old *batchv1.Job) field.ErrorList {
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
