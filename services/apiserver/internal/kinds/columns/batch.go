package columns

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

func jobs() layout {
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Status", "Status of the job."),
		text("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"]),
		text("Duration", "Time required to complete the job."),
		age(),
		wide(text("Containers", containersDescription)),
		wide(text("Images", imagesDescription)),
		wide(text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])),
	}, func(j *batchv1.Job, now time.Time) []any {
		containers, images := template(&j.Spec.Template)
		return []any{j.Name, jobStatus(j), jobCompletions(j), jobDuration(j, now), ageOf(j, now), containers, images, selector(j.Spec.Selector)}
	})
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

func cronJobs() layout {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return of([]metav1.TableColumnDefinition{
		name(),
		text("Schedule", spec["schedule"]),
		text("Timezone", spec["timeZone"]),
		{Name: "Suspend", Type: "boolean", Description: spec["suspend"]},
		number("Active", status["active"]),
		text("Last Schedule", status["lastScheduleTime"]),
		age(),
		wide(text("Containers", containersDescription)),
		wide(text("Images", imagesDescription)),
		wide(text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])),
	}, func(c *batchv1.CronJob, now time.Time) []any {
		zone, suspended, last := none, unset, none
		if c.Spec.TimeZone != nil {
			zone = *c.Spec.TimeZone
		}
		if s := c.Spec.Suspend; s != nil {
			suspended = map[bool]string{false: "False", true: "True"}[*s]
		}
		if t := c.Status.LastScheduleTime; t != nil {
			last = since(t.Time, now)
		}
		containers, images := template(&c.Spec.JobTemplate.Spec.Template)
		return []any{
			c.Name, c.Spec.Schedule, zone, suspended, int64(len(c.Status.Active)), last, ageOf(c, now),
			containers, images, selector(c.Spec.JobTemplate.Spec.Selector),
		}
	})
}
