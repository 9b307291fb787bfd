package batch

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// CronJob defines the kind CronJob.
func CronJob() *kinds.Definition {
	type cronJob = *batchv1.CronJob
	specStatus := kinds.SpecStatusOf(func(c cronJob) (*batchv1.CronJobSpec, *batchv1.CronJobStatus) { return &c.Spec, &c.Status })
	return kinds.Of[cronJob]{
		Columns: cronJobColumns(),
		Level:   kinds.Full,
		Default: defaultCronJob,
		Create: func(c cronJob) {
			specStatus.Begin(c)
			c.Spec.JobTemplate.Spec.Scheduling = nil
		},
		Validate: validateCronJob,
		Update: kinds.ChangeOf[cronJob]{
			Prepare: func(c, old cronJob) {
				if old.Spec.JobTemplate.Spec.Scheduling == nil {
					c.Spec.JobTemplate.Spec.Scheduling = nil
				}
				specStatus.KeepStatus(c, old)
			},
			Validate: validateCronJobUpdate,
			Warnings: func(c, old cronJob) []string {
				var found []string
				if c.Generation != old.Generation {
					found = cronJobWarnings(c)
				}
				if strings.Contains(c.Spec.Schedule, "TZ") {
					found = append(found, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
				}
				return found
			},
		},
		// Kubernetes checks nothing in the status but the metadata.
		Subresources:     map[string]kinds.ChangeOf[cronJob]{"status": {Prepare: specStatus.KeepSpec}},
		Warnings:         cronJobWarnings,
		CreationWarnings: func(c cronJob) []string { return podtemplate.WorkloadNameWarnings(c.Name) },
	}.Definition()
}

func cronJobWarnings(c *batchv1.CronJob) []string {
	return jobWarnings(&c.Spec.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))
}

// Kubernetes' defaults for the finished jobs that a CronJob keeps.
const (
	successfulHistory = 3
	failedHistory     = 1
)

// defaultCronJob sets the defaults of a cron job; in its job template, only those that don't depend on the
// job's creation.
func defaultCronJob(c *batchv1.CronJob) {
	defaultJobTemplate(&c.Spec.JobTemplate.Spec)
	kinds.FillString(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	kinds.Fill(&c.Spec.Suspend, false)
	kinds.Fill(&c.Spec.SuccessfulJobsHistoryLimit, int32(successfulHistory))
	kinds.Fill(&c.Spec.FailedJobsHistoryLimit, int32(failedHistory))
}

func cronJobColumns() *columns.Layout {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Schedule", spec["schedule"]),
		columns.Text("Timezone", spec["timeZone"]),
		{Name: "Suspend", Type: "boolean", Description: spec["suspend"]},
		columns.Number("Active", status["active"]),
		columns.Text("Last Schedule", status["lastScheduleTime"]),
		columns.Age(),
		columns.Wide(columns.Text("Containers", columns.ContainersDescription)),
		columns.Wide(columns.Text("Images", columns.ImagesDescription)),
		columns.Wide(columns.Text("Selector", batchv1.JobSpec{}.SwaggerDoc()["selector"])),
	}, func(c *batchv1.CronJob, now time.Time) []any {
		zone, suspended, last := columns.None, columns.Unset, columns.None
		if c.Spec.TimeZone != nil {
			zone = *c.Spec.TimeZone
		}
		if s := c.Spec.Suspend; s != nil {
			suspended = map[bool]string{false: "False", true: "True"}[*s]
		}
		if t := c.Status.LastScheduleTime; t != nil {
			last = columns.Since(t.Time, now)
		}
		containers, images := columns.Template(&c.Spec.JobTemplate.Spec.Template)
		return []any{
			c.Name, c.Spec.Schedule, zone, suspended, int64(len(c.Status.Active)), last, columns.AgeOf(c, now),
			containers, images, columns.Selector(c.Spec.JobTemplate.Spec.Selector),
		}
	})
}
