package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// track counts the pods that have ended, up to burst of them, and writes the status: first their UIDs and
// the condition that the Job is to end; then, when they have lost their finalizers, their number and the
// condition that it has ended.
func (p *pass) track(ctx context.Context) error {
	left := sets.New[types.UID]()
	for _, pod := range p.pods {
		if tracked(pod) {
			left.Insert(pod.UID)
		}
	}
	p.count(left)
	ended, all := p.mark()
	if indexed(p.job) {
		p.writeIndexes()
	}
	p.announce()
	if p.flush {
		if err := p.write(ctx); err != nil {
			return err
		}
		p.reconciler.failures.set(p.key, p.failures)
	}
	p.ruledBy(p.ruled)
	faults := each(ended, func(pod *corev1.Pod) error { return p.untrack(ctx, pod) })
	for i, err := range faults {
		if err == nil {
			left.Delete(ended[i].UID)
		}
	}
	p.count(left)
	err := errors.Join(faults...)
	over := err == nil && all && p.finish()
	if p.flush {
		if err := p.write(ctx); err != nil {
			return err
		}
	}
	if over {
		p.reconciler.failures.forget(p.key)
	}
	if err != nil {
		return fmt.Errorf("removing tracking finalizers: %w", err)
	}
	return nil
}

// count moves the pods that have lost their finalizers from the uncounted to the numbers. Left are the
// pods that still have it.
func (p *pass) count(left sets.Set[types.UID]) {
	status := &p.job.Status
	if status.UncountedTerminatedPods == nil {
		status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	uncounted := status.UncountedTerminatedPods
	for _, each := range []struct {
		uids  *[]types.UID
		total *int32
	}{{&uncounted.Succeeded, &status.Succeeded}, {&uncounted.Failed, &status.Failed}} {
		before := len(*each.uids)
		*each.uids = slices.DeleteFunc(*each.uids, func(uid types.UID) bool { return !left.Has(uid) })
		if counted := before - len(*each.uids); counted > 0 {
			*each.total += int32(counted)
			p.flush = true
		}
	}
}

// mark adds pods that have ended to the uncounted, and returns those that may lose their finalizers. All
// is false if more have ended than one pass takes.
func (p *pass) mark() (ended []*corev1.Pod, all bool) {
	pods, uncounted, newIndexes := p.pods, p.job.Status.UncountedTerminatedPods, 0
	if indexed(p.job) {
		pods = slices.Clone(pods)
		slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(p.index(a), p.index(b)) })
	}
	for _, pod := range pods {
		if !tracked(pod) || !p.releasable(pod) {
			continue
		}
		ended = append(ended, pod)
		index := p.index(pod)
		switch {
		case pod.Status.Phase == corev1.PodSucceeded && !p.uncounted.failed.Has(pod.UID):
			switch {
			case !indexed(p.job) && !p.uncounted.succeeded.Has(pod.UID):
				uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
				p.flush = true
			case indexed(p.job) && index != noIndex && !p.succeededBefore.has(index):
				newIndexes++
				p.flush = true
			}
		case p.uncounted.failed.Has(pod.UID), indexed(p.job) && index == noIndex:
		case p.hasFailed(pod) || p.end != nil && p.end.Type != batchv1.JobSuccessCriteriaMet:
			v := judge(p.job.Spec.PodFailurePolicy, pod)
			p.ruled[v.action]++
			if v.counts() {
				uncounted.Failed = append(uncounted.Failed, pod.UID)
				p.flush = true
			}
		}
		if newIndexes+len(uncounted.Succeeded)+len(uncounted.Failed) >= burst {
			return ended, false
		}
	}
	return ended, true
}

// releasable reports whether a pod may lose its finalizer: it has ended, or the Job has.
func (p *pass) releasable(pod *corev1.Pod) bool {
	if p.job.DeletionTimestamp != nil || p.end != nil || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	if !p.hasFailed(pod) {
		return false
	}
	replaced := p.replaced[p.index(pod)]
	return replaced == nil || replaced.UID != pod.UID
}

// writeIndexes sets what the status says of indexes.
func (p *pass) writeIndexes() {
	status := &p.job.Status
	completed := p.succeededIndexes.String()
	var failed *string
	if p.job.Spec.BackoffLimitPerIndex != nil {
		text := p.failedIndexes.String()
		failed = &text
	}
	if completed != status.CompletedIndexes || (failed == nil) != (status.FailedIndexes == nil) ||
		failed != nil && *failed != *status.FailedIndexes {
		p.flush = true
	}
	status.CompletedIndexes, status.FailedIndexes = completed, failed
	status.Succeeded = int32(p.succeeded)
}

// announce sets the condition that the Job is to end, and makes end the one that it has.
func (p *pass) announce() {
	if p.end == nil {
		return
	}
	switch p.end.Type {
	case batchv1.JobFailureTarget:
		p.set(*p.end)
		p.end = p.condition(batchv1.JobFailed, p.end.Reason, p.end.Message)
	case batchv1.JobSuccessCriteriaMet:
		p.set(*p.end)
		p.end = p.condition(batchv1.JobComplete, p.end.Reason, p.end.Message)
	}
}

// finish sets the condition that the Job has ended, unless pods are left to count or to end.
func (p *pass) finish() bool {
	status := &p.job.Status
	if p.end == nil || p.terminating > 0 || len(status.UncountedTerminatedPods.Succeeded)+len(status.UncountedTerminatedPods.Failed) > 0 {
		return false
	}
	p.set(*p.end)
	p.flush = true
	p.notes = append(p.notes, func() { p.ended(p.job, p.end) })
	if p.end.Type != batchv1.JobComplete {
		p.note(corev1.EventTypeWarning, p.end.Reason, p.end.Message)
		return true
	}
	ended := p.end.LastTransitionTime
	status.CompletionTime = &ended
	if p.job.Spec.Completions != nil && status.Succeeded > *p.job.Spec.Completions {
		p.note(corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
	}
	p.note(corev1.EventTypeNormal, "Completed", "Job completed")
	return true
}

// write writes the status, and records the Events about it.
func (p *pass) write(ctx context.Context) error {
	written, err := p.jobs.Client.UpdateStatus(ctx, p.job, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	p.job, p.flush = written, false
	p.counted(p.job, p.before)
	p.before = p.job.Status.DeepCopy()
	for _, record := range p.notes {
		record()
	}
	p.notes = nil
	return nil
}
