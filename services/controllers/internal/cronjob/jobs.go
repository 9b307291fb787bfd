package cronjob

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/controllers/internal/controllerref"
)

// jobName returns the name of a time's Job. Its number is that of the minutes since 1970.
func jobName(cronJob *batchv1.CronJob, at time.Time) string {
	return cronJob.Name + "-" + strconv.FormatInt(at.Unix()/60, 10)
}

// newJob builds a time's Job. The time is noted in the CronJob's zone, which is a valid one.
func newJob(cronJob *batchv1.CronJob, at time.Time, kind schema.GroupVersionKind) *batchv1.Job {
	zone := time.UTC
	if cronJob.Spec.TimeZone != nil {
		if known, err := time.LoadLocation(*cronJob.Spec.TimeZone); err == nil {
			zone = known
		}
	}
	template := &cronJob.Spec.JobTemplate
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cronJob.Namespace, Name: jobName(cronJob, at), CreationTimestamp: metav1.NewTime(at),
			Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			OwnerReferences: []metav1.OwnerReference{controllerref.Reference(cronJob, kind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	job.Annotations[batchv1.CronJobScheduledTimestampAnnotation] = at.In(zone).Format(time.RFC3339)
	return job
}

// active reports whether a CronJob's status has a Job among those that run.
func active(cronJob *batchv1.CronJob, uid types.UID) bool {
	return slices.ContainsFunc(cronJob.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

// ended returns how a Job has ended; "" if it has not.
func ended(job *batchv1.Job) batchv1.JobConditionType {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// trimHistory deletes the oldest Jobs that have ended, as far as there are more than the CronJob keeps.
// What cannot be deleted is told by an Event, and stays until the next reconcile.
func (p *pass) trimHistory(ctx context.Context) {
	for _, each := range []struct {
		end  batchv1.JobConditionType
		keep *int32
	}{
		{batchv1.JobComplete, p.cronJob.Spec.SuccessfulJobsHistoryLimit},
		{batchv1.JobFailed, p.cronJob.Spec.FailedJobsHistoryLimit},
	} {
		if each.keep == nil {
			continue
		}
		past := slices.DeleteFunc(slices.Clone(p.jobs), func(job *batchv1.Job) bool {
			return ended(job) != each.end || job.DeletionTimestamp != nil
		})
		slices.SortFunc(past, byStart)
		for _, job := range past[:max(len(past)-int(*each.keep), 0)] {
			_ = p.delete(ctx, job)
		}
	}
}

// byStart sorts the Job first that started first. One that never did comes last.
func byStart(a, b *batchv1.Job) int {
	startA, startB := a.Status.StartTime, b.Status.StartTime
	switch {
	case startA == nil && startB != nil:
		return 1
	case startA != nil && startB == nil:
		return -1
	case startA.Equal(startB):
		return cmp.Compare(a.Name, b.Name)
	default:
		return startA.Compare(startB.Time)
	}
}

// delete deletes a Job, and then its pods, and removes it from those that run.
func (p *pass) delete(ctx context.Context, job *batchv1.Job) error {
	policy := metav1.DeletePropagationBackground
	err := p.reconciler.jobs.Client.Delete(ctx, job.Namespace, job.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: metav1.NewUIDPreconditions(string(job.UID)),
	})
	if err != nil {
		p.warn("FailedDelete", "Deleted job: %v", err)
		return err
	}
	p.forget(job.UID)
	p.tell("SuccessfulDelete", "Deleted job %v", job.Name)
	return nil
}
