package batch

import (
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the images of the services have no database of time zones

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// maxCronJobName leaves room for the 11 characters that a cron job appends to its name for a
	// job's.
	maxCronJobName = 52
	// maxZonePart is the longest part of a time zone's name.
	maxZonePart = 14
)

// validateCronJob validates a new cron job.
func validateCronJob(c *batchv1.CronJob) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, cronJobSpec(&c.Spec, nil, field.NewPath("spec"))...)
	if len(c.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters"))
	}
	return errs
}

// validateCronJobUpdate validates an update of a cron job.
func validateCronJobUpdate(c, old *batchv1.CronJob) field.ErrorList {
	return cronJobSpec(&c.Spec, &old.Spec, field.NewPath("spec"))
}

// cronJobSpec checks the spec of a cron job; old is nil for a new one.
func cronJobSpec(spec, old *batchv1.CronJobSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Schedule == "" {
		errs = append(errs, field.Required(path.Child("schedule"), ""))
	} else {
		errs = append(errs, schedule(spec, old != nil && strings.Contains(old.Schedule, "TZ"), path.Child("schedule"))...)
	}
	errs = append(errs, nonnegative(spec.StartingDeadlineSeconds, path.Child("startingDeadlineSeconds"))...)
	if old == nil || !apiequality.Semantic.DeepEqual(spec.TimeZone, old.TimeZone) {
		errs = append(errs, timeZone(spec.TimeZone, path.Child("timeZone"))...)
	}
	allowed := []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}
	switch at := path.Child("concurrencyPolicy"); {
	case spec.ConcurrencyPolicy == "":
		errs = append(errs, field.Required(at, ""))
	case !slices.Contains(allowed, spec.ConcurrencyPolicy):
		errs = append(errs, field.NotSupported(at, spec.ConcurrencyPolicy, allowed))
	}
	var was *corev1.PodTemplateSpec
	if old != nil {
		was = &old.JobTemplate.Spec.Template
	}
	errs = append(errs, jobTemplate(&spec.JobTemplate, was, path.Child("jobTemplate"))...)
	errs = append(errs, nonnegative(spec.SuccessfulJobsHistoryLimit, path.Child("successfulJobsHistoryLimit"))...)
	return append(errs, nonnegative(spec.FailedJobsHistoryLimit, path.Child("failedJobsHistoryLimit"))...)
}

// schedule checks a cron job's schedule. Only cron jobs that named their time zone in it before
// there was a field for that may continue to do so.
func schedule(spec *batchv1.CronJobSpec, zoned bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if _, err := parseSchedule(spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(path, spec.Schedule, err.Error()))
	}
	if !strings.Contains(spec.Schedule, "TZ") {
		return errs
	}
	switch {
	case !zoned:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case spec.TimeZone != nil:
		errs = append(errs, field.Invalid(path, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

// timeZone checks the name of a time zone. Names of the IANA database are allowed, but never the
// local zone of the machine that an apiserver runs on.
func timeZone(name *string, path *field.Path) field.ErrorList {
	if name == nil {
		return nil
	}
	if *name == "" {
		return field.ErrorList{field.Invalid(path, *name, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(*name, "/") {
		if part == "" || part == "." || part == ".." || strings.HasPrefix(part, "-") || len(part) > maxZonePart || strings.ContainsFunc(part, notOfZone) {
			return field.ErrorList{field.Invalid(path, *name, "unknown time zone "+*name)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(*name, "Local") {
		errs = append(errs, field.Invalid(path, *name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(*name); err != nil {
		errs = append(errs, field.Invalid(path, *name, err.Error()))
	}
	return errs
}

// notOfZone reports whether a character may not occur in the name of a time zone.
func notOfZone(r rune) bool {
	switch {
	case 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(".-_+", r)
}

func jobTemplate(t *batchv1.JobTemplateSpec, was *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	errs := jobSpec(&t.Spec, was, path.Child("spec"))
	if t.Spec.Selector != nil {
		errs = append(errs, field.Invalid(path.Child("spec", "selector"), t.Spec.Selector, "`selector` will be auto-generated"))
	}
	if t.Spec.ManualSelector != nil && *t.Spec.ManualSelector {
		errs = append(errs, field.NotSupported(path.Child("spec", "manualSelector"), *t.Spec.ManualSelector, []string{"nil", "false"}))
	}
	return errs
}

// parseSchedule parses a schedule as Kubernetes does. The parser panics on a time zone without a
// schedule ("TZ=0").
func parseSchedule(text string) (parsed cron.Schedule, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("invalid schedule format: %v", fault)
		}
	}()
	return cron.ParseStandard(text)
}
