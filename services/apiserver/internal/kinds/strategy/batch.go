package strategy

import (
	"maps"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	validation "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/batch"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/warnings"
)

// Above both of these, Kubernetes' controller may lose track of the indexes of a job.
const (
	manyCompletions = 100_000
	muchParallelism = 10_000
)

func job() *kinds.Definition {
	type job = *batchv1.Job
	specStatus := specStatusOf(func(j job) (*batchv1.JobSpec, *batchv1.JobStatus) { return &j.Spec, &j.Status })
	s := of[job]{
		Level:   kinds.Full,
		Default: defaults.Job,
		Create: func(j job) {
			specStatus.begin(j)
			j.Spec.Scheduling = nil
			if j.Spec.ManualSelector == nil || !*j.Spec.ManualSelector {
				generateSelector(j)
			}
		},
		Validate: validation.Job,
		Update: change[job]{
			Prepare: func(j, old job) {
				if old.Spec.Scheduling == nil {
					j.Spec.Scheduling = nil
				}
				specStatus.keepStatus(j, old)
			},
			Validate: validation.JobUpdate,
		},
		Subresources:     map[string]change[job]{"status": {Prepare: specStatus.keepSpec, Validate: validation.JobStatus}},
		Warnings:         func(j job) []string { return jobWarnings(&j.Spec, field.NewPath("spec")) },
		CreationWarnings: func(j job) []string { return warnings.WorkloadName(j.Name) },
		FieldLabels:      []string{"status.successful"},
		Fields:           func(j job) fields.Set { return fields.Set{"status.successful": strconv.Itoa(int(j.Status.Succeeded))} },
	}.strategy()
	s.Orphans = true
	s.Renamed = func(obj scheme.Object, taken string) { renameJob(obj.(job), taken) }
	return s
}

// generateSelector makes a job select its pods by its UID, and labels them. If the job has no
// labels, or its pods' labels, it is labelled too. Labels that a client has set to something else
// are left for validation to reject.
func generateSelector(j *batchv1.Job) {
	own := len(j.Labels) > 0 && !maps.Equal(j.Labels, j.Spec.Template.Labels)
	labels := maps.Clone(j.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range map[string]string{
		"job-name": j.Name, batchv1.JobNameLabel: j.Name, "controller-uid": string(j.UID), batchv1.ControllerUidLabel: string(j.UID),
	} {
		if _, ok := labels[key]; !ok {
			labels[key] = value
		}
	}
	j.Spec.Template.Labels = labels
	if !own {
		j.Labels = maps.Clone(labels)
	}
	if j.Spec.Selector == nil {
		j.Spec.Selector = &metav1.LabelSelector{}
	}
	if _, ok := j.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; ok {
		return
	}
	selected := maps.Clone(j.Spec.Selector.MatchLabels)
	if selected == nil {
		selected = map[string]string{}
	}
	selected[batchv1.ControllerUidLabel] = string(j.UID)
	j.Spec.Selector.MatchLabels = selected
}

// renameJob replaces the taken name of a job in its labels with the new one.
func renameJob(j *batchv1.Job, taken string) {
	for _, labels := range []map[string]string{j.Labels, j.Spec.Template.Labels} {
		for _, key := range []string{"job-name", batchv1.JobNameLabel} {
			if labels[key] == taken {
				labels[key] = j.Name
			}
		}
	}
}

func jobWarnings(spec *batchv1.JobSpec, path *field.Path) []string {
	var found []string
	indexed := spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
	if indexed && spec.Completions != nil && *spec.Completions > manyCompletions && spec.Parallelism != nil && *spec.Parallelism > muchParallelism {
		found = append(found, path.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(found, warnings.PodTemplate(&spec.Template, path.Child("template"))...)
}

func cronJob() *kinds.Definition {
	type cronJob = *batchv1.CronJob
	specStatus := specStatusOf(func(c cronJob) (*batchv1.CronJobSpec, *batchv1.CronJobStatus) { return &c.Spec, &c.Status })
	return of[cronJob]{
		Level:   kinds.Full,
		Default: defaults.CronJob,
		Create: func(c cronJob) {
			specStatus.begin(c)
			c.Spec.JobTemplate.Spec.Scheduling = nil
		},
		Validate: validation.CronJob,
		Update: change[cronJob]{
			Prepare: func(c, old cronJob) {
				if old.Spec.JobTemplate.Spec.Scheduling == nil {
					c.Spec.JobTemplate.Spec.Scheduling = nil
				}
				specStatus.keepStatus(c, old)
			},
			Validate: validation.CronJobUpdate,
		},
		// Kubernetes checks nothing in the status but the metadata.
		Subresources: map[string]change[cronJob]{"status": {Prepare: specStatus.keepSpec}},
		Warnings: func(c cronJob) []string {
			found := jobWarnings(&c.Spec.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))
			if strings.Contains(c.Spec.Schedule, "TZ") {
				found = append(found, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
			}
			return found
		},
		CreationWarnings: func(c cronJob) []string { return warnings.WorkloadName(c.Name) },
	}.strategy()
}
