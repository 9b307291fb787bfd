package job

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// pass is one reconcile of a Job.
type pass struct {
	*reconciler
	key  string
	job  *batchv1.Job
	pods []*corev1.Pod
	now  time.Time
	// again is after what time the Job is to be reconciled again; 0 if only a change asks for it.
	again time.Duration

	active             []*corev1.Pod
	ready, terminating int32
	// succeeded and failed include the pods that this pass finds ended.
	succeeded, failed int
	// uncounted are the pods whose UIDs were in the status when the pass began.
	uncounted struct{ succeeded, failed sets.Set[types.UID] }
	// succeededBefore are the indexes in the status, succeededIndexes those and the ones of this pass.
	succeededBefore, succeededIndexes indexes
	// failedIndexes are set if the Job limits the failures per index.
	failedIndexes indexes
	// replaced are the failed pods, by index, that stay until there is a pod in their place: it takes
	// over their count of failures.
	replaced map[int]*corev1.Pod
	failures failures

	// action is what the pass does for the pods, in a label of metrics.
	action string
	// before is the status as it was last written, ruled the failed pods by the action of their rule in the
	// pod failure policy, both for metrics.
	before *batchv1.JobStatus
	ruled  map[batchv1.PodFailurePolicyAction]int

	// end is the condition with which the Job ends; nil if it goes on.
	end *batchv1.JobCondition
	// flush means that the status has changed.
	flush bool
	// notes are Events about changes of the status, recorded once it is written.
	notes []func()
}

func (r *reconciler) newPass(key string, job *batchv1.Job, pods []*corev1.Pod, now time.Time) *pass {
	p := &pass{
		reconciler: r, key: key, job: job, pods: pods, now: now, action: reconciling,
		before: job.Status.DeepCopy(), ruled: map[batchv1.PodFailurePolicyAction]int{},
	}
	status := &job.Status
	if status.UncountedTerminatedPods == nil {
		status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	for _, pod := range pods {
		switch {
		case podstate.Active(pod):
			p.active = append(p.active, pod)
			if podstate.Ready(pod) {
				p.ready++
			}
		case podstate.Terminating(pod):
			p.terminating++
		}
	}
	p.uncounted.succeeded = sets.New(status.UncountedTerminatedPods.Succeeded...)
	p.uncounted.failed = sets.New(status.UncountedTerminatedPods.Failed...)
	succeeded := p.valid(p.uncounted.succeeded, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	failed := p.valid(p.uncounted.failed, p.hasFailed)
	p.succeeded = int(status.Succeeded) + len(succeeded) + len(p.uncounted.succeeded)
	p.failed = int(status.Failed) + len(p.uncounted.failed)
	for _, pod := range failed {
		if judge(job.Spec.PodFailurePolicy, pod).counts() {
			p.failed++
		}
	}
	if status.StartTime == nil && !suspended(job) {
		status.StartTime = &metav1.Time{Time: now}
	}
	p.failures = r.failures.of(key, job.UID).with(succeeded, failed)
	return p
}

// valid returns the pods that are not counted yet, are not among except, have an index if they need one,
// and pass a filter.
func (p *pass) valid(except sets.Set[types.UID], filter func(*corev1.Pod) bool) []*corev1.Pod {
	var valid []*corev1.Pod
	for _, pod := range p.pods {
		if tracked(pod) && !except.Has(pod.UID) && (!indexed(p.job) || p.index(pod) != noIndex) && filter(pod) {
			valid = append(valid, pod)
		}
	}
	return valid
}

// hasFailed reports whether a pod counts as failed. One that is being deleted does, because it may never
// come to its end, unless the Job waits for pods to end before it replaces them.
func (p *pass) hasFailed(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed ||
		!replacesFailedOnly(p.job) && pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
}

// judge finds out whether the Job ends, and why. What an earlier pass found goes first, then failures,
// then success.
func (p *pass) judge() {
	spec, conditions := &p.job.Spec, p.job.Status.Conditions
	if met := find(conditions, batchv1.JobSuccessCriteriaMet); met != nil && met.Status == corev1.ConditionTrue {
		p.end = met.DeepCopy()
	} else if target := find(conditions, batchv1.JobFailureTarget); target != nil && target.Status == corev1.ConditionTrue {
		p.end = p.condition(batchv1.JobFailed, target.Reason, target.Message)
	} else if message := p.forbidden(); message != "" {
		p.fails(batchv1.JobReasonPodFailurePolicy, message)
	}
	if p.end == nil {
		p.judgeLimits()
	}
	if !indexed(p.job) {
		return
	}
	p.judgeIndexes()
	if p.end != nil {
		return
	}
	if message := meets(spec.SuccessPolicy, completions(p.job), p.succeededIndexes); message != "" {
		p.end = p.condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonSuccessPolicy, message)
	}
}

// forbidden returns the message of the pod failure policy for the first pod that fails the Job.
func (p *pass) forbidden() string {
	if p.job.Spec.PodFailurePolicy == nil {
		return ""
	}
	for _, pod := range p.pods {
		if p.hasFailed(pod) {
			if v := judge(p.job.Spec.PodFailurePolicy, pod); v.message != "" {
				return v.message
			}
		}
	}
	return ""
}

// judgeLimits applies the limits of retries and of time.
func (p *pass) judgeLimits() {
	limit, deadline := backoffLimit(p.job), p.job.Spec.ActiveDeadlineSeconds
	if p.failed > limit || p.restartsExceed(limit) {
		p.fails(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
		return
	}
	if deadline == nil || suspended(p.job) {
		return
	}
	left := seconds(*deadline) - p.now.Sub(p.job.Status.StartTime.Time)
	if left <= 0 {
		p.fails(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
		return
	}
	p.requeue(left)
}

// restartsExceed reports whether the containers of pods that restart them have done so too often.
func (p *pass) restartsExceed(limit int) bool {
	if p.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	restarts := 0
	for _, pod := range p.pods {
		if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
			continue
		}
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses {
				restarts += int(statuses[i].RestartCount)
			}
		}
	}
	return restarts >= max(limit, 1)
}

// judgeIndexes finds the indexes that have succeeded and failed, and applies the limits on the latter.
func (p *pass) judgeIndexes() {
	spec, all := &p.job.Spec, completions(p.job)
	p.succeededBefore = parseIndexes(p.job.Status.CompletedIndexes, all)
	p.succeededIndexes = p.succeededBefore.merge(p.indexesOf(p.pods, func(pod *corev1.Pod) bool {
		return tracked(pod) && pod.Status.Phase == corev1.PodSucceeded
	}))
	p.succeeded = p.succeededIndexes.total()
	if spec.BackoffLimitPerIndex == nil {
		return
	}
	if p.job.Status.FailedIndexes != nil {
		p.failedIndexes = parseIndexes(*p.job.Status.FailedIndexes, all)
	}
	p.failedIndexes = p.failedIndexes.merge(p.indexesOf(p.pods, func(pod *corev1.Pod) bool { return tracked(pod) && p.failsIndex(pod) }))
	if failed := p.failedIndexes.total(); p.end == nil {
		switch {
		case spec.MaxFailedIndexes != nil && failed > int(*spec.MaxFailedIndexes):
			p.fails(batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes")
		case failed > 0 && failed+p.succeeded >= all:
			p.fails(batchv1.JobReasonFailedIndexes, "Job has failed indexes")
		}
	}
	p.replaced = p.toReplace()
}

// act creates and deletes pods, and sets the conditions that follow from it.
func (p *pass) act(ctx context.Context) error {
	status := &p.job.Status
	active := len(p.active)
	var err error
	if p.end != nil {
		var deleted int
		deleted, err = p.deletePods(ctx, p.active, false)
		if deleted != active {
			p.end = nil // Some pods still have to be deleted.
		}
		active -= deleted
	} else {
		if p.job.DeletionTimestamp == nil {
			active, err = p.manage(ctx)
		}
		switch {
		case p.complete(active):
			p.end = p.condition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
		case p.job.DeletionTimestamp == nil:
			p.tellOfSuspension()
		}
	}
	if status.Active != int32(active) || status.Ready == nil || *status.Ready != p.ready ||
		status.Terminating == nil || *status.Terminating != p.terminating {
		p.flush = true
	}
	status.Active, status.Ready, status.Terminating = int32(active), &p.ready, &p.terminating
	return err
}

// complete reports whether the Job has succeeded, now that so many pods are active.
func (p *pass) complete(active int) bool {
	if p.job.Spec.Completions == nil {
		return p.succeeded > 0 && active == 0
	}
	return p.succeeded >= completions(p.job) && active == 0
}

// tellOfSuspension sets the condition Suspended and the start time that goes with it.
func (p *pass) tellOfSuspension() {
	status := &p.job.Status
	if suspended(p.job) {
		if p.set(*p.condition(batchv1.JobSuspended, "JobSuspended", "Job suspended")) {
			status.StartTime = nil
			p.note(corev1.EventTypeNormal, "Suspended", "Job suspended")
		}
		return
	}
	resumed := p.condition(batchv1.JobSuspended, "JobResumed", "Job resumed")
	resumed.Status = corev1.ConditionFalse
	if p.set(*resumed) {
		// The deadline counts the time from the last start.
		status.StartTime = &metav1.Time{Time: p.now}
		p.note(corev1.EventTypeNormal, "Resumed", "Job resumed")
	}
}

// set replaces the condition of a type, or adds one that is true, and reports whether anything changed.
func (p *pass) set(condition batchv1.JobCondition) bool {
	current := find(p.job.Status.Conditions, condition.Type)
	switch {
	case current == nil && condition.Status == corev1.ConditionFalse:
		return false
	case current == nil:
		p.job.Status.Conditions = append(p.job.Status.Conditions, condition)
	case current.Status == condition.Status && current.Reason == condition.Reason && current.Message == condition.Message:
		return false
	default:
		*current = condition
	}
	p.flush = true
	return true
}

// fails makes the Job end in failure.
func (p *pass) fails(reason, message string) {
	p.end = p.condition(batchv1.JobFailureTarget, reason, message)
}

// condition returns a condition that is true as of now.
func (p *pass) condition(of batchv1.JobConditionType, reason, message string) *batchv1.JobCondition {
	now := metav1.NewTime(p.now)
	return &batchv1.JobCondition{
		Type: of, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: now, LastTransitionTime: now,
	}
}

// note records an Event once the status is written.
func (p *pass) note(eventType, reason, message string) {
	p.notes = append(p.notes, func() { p.events.Event(p.job, eventType, reason, "%s", message) })
}

// requeue asks for another pass after a time.
func (p *pass) requeue(after time.Duration) {
	if p.again == 0 || after < p.again {
		p.again = after
	}
}

func find(conditions []batchv1.JobCondition, of batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range conditions {
		if conditions[i].Type == of {
			return &conditions[i]
		}
	}
	return nil
}
