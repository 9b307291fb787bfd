package batch

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const negative = "must be greater than or equal to 0"

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
			legacyControllerUID: "u", legacyJobName: "x", batchv1.ControllerUidLabel: "u", batchv1.JobNameLabel: "x",
		}},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "b"}}},
	}
}

func TestCronJob(t *testing.T) {
	cronJob := func() *batchv1.CronJob {
		c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}, Spec: batchv1.CronJobSpec{Schedule: "* * * * *"}}
		c.Spec.JobTemplate.Spec.Template = template()
		return c
	}
	type cj = *batchv1.CronJob
	for _, tc := range []struct {
		name   string
		change func(cj)
		want   []string
	}{
		{"plain", func(cj) {}, nil},
		{"long name", func(c cj) { c.Name = strings.Repeat("a", 53) }, []string{`metadata.name: Invalid value: "` + strings.Repeat("a", 53) + `": must be no more than 52 characters`}},
		{"no schedule", func(c cj) { c.Spec.Schedule = "" }, []string{"spec.schedule: Required value"}},
		{"schedule", func(c cj) { c.Spec.Schedule = "61 * * * *" }, []string{`spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61`}},
		{"zone without schedule", func(c cj) { c.Spec.Schedule = "TZ=0" }, []string{
			`spec.schedule: Invalid value: "TZ=0": invalid schedule format: runtime error: slice bounds out of range [:-1]`,
			`spec.schedule: Invalid value: "TZ=0": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`,
		}},
		{"zone in schedule", func(c cj) { c.Spec.Schedule = "TZ=Etc/UTC * * * * *" }, []string{`spec.schedule: Invalid value: "TZ=Etc/UTC * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`}},
		{"bad zone in schedule", func(c cj) { c.Spec.Schedule = "CRON_TZ=No/Where * * * * *" }, []string{
			`spec.schedule: Invalid value: "CRON_TZ=No/Where * * * * *": provided bad location No/Where: unknown time zone No/Where`,
			`spec.schedule: Invalid value: "CRON_TZ=No/Where * * * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`,
		}},
		{"zone", func(c cj) { c.Spec.TimeZone = new("America/Argentina/Buenos_Aires") }, nil},
		{"empty zone", func(c cj) { c.Spec.TimeZone = new("") }, []string{`spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string`}},
		{"local zone", func(c cj) { c.Spec.TimeZone = new("Local") }, []string{`spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones`}},
		{"unknown zone", func(c cj) { c.Spec.TimeZone = new("Europe/Pariss") }, []string{`spec.timeZone: Invalid value: "Europe/Pariss": unknown time zone Europe/Pariss`}},
		{"path as zone", func(c cj) { c.Spec.TimeZone = new("../etc") }, []string{`spec.timeZone: Invalid value: "../etc": unknown time zone ../etc`}},
		{"long zone", func(c cj) { c.Spec.TimeZone = new("Europe/Abcdefghijklmno") }, []string{`spec.timeZone: Invalid value: "Europe/Abcdefghijklmno": unknown time zone Europe/Abcdefghijklmno`}},
		{"spaced zone", func(c cj) { c.Spec.TimeZone = new(" UTC") }, []string{`spec.timeZone: Invalid value: " UTC": unknown time zone  UTC`}},
		{"concurrency", func(c cj) { c.Spec.ConcurrencyPolicy = "Perhaps" }, []string{`spec.concurrencyPolicy: Unsupported value: "Perhaps": supported values: "Allow", "Forbid", "Replace"`}},
		{"negative numbers", func(c cj) {
			c.Spec.StartingDeadlineSeconds, c.Spec.SuccessfulJobsHistoryLimit, c.Spec.FailedJobsHistoryLimit = new(int64(-1)), new(int32(-2)), new(int32(-3))
		}, []string{
			"spec.startingDeadlineSeconds: Invalid value: -1: " + negative, "spec.successfulJobsHistoryLimit: Invalid value: -2: " + negative, "spec.failedJobsHistoryLimit: Invalid value: -3: " + negative,
		}},
		{"job", func(c cj) {
			s := &c.Spec.JobTemplate.Spec
			s.Parallelism, s.Template.Spec.RestartPolicy, s.ManualSelector, s.Selector = new(int32(-1)), "", new(true), &metav1.LabelSelector{}
		}, []string{
			"spec.jobTemplate.spec.parallelism: Invalid value: -1: " + negative,
			`spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"`,
			"spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
			`spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cronJob()
			tc.change(c)
			defaultCronJob(c)
			errortest.Exactly(t, validateCronJob(c), tc.want...)
		})
	}
	old := cronJob()
	old.Name, old.Spec.Schedule, old.Spec.TimeZone = strings.Repeat("a", 60), "TZ=Etc/UTC * * * * *", nil
	defaultCronJob(old)
	errortest.Exactly(t, validateCronJobUpdate(old, old))
	both := old.DeepCopy()
	both.Spec.TimeZone = new("Etc/UTC")
	errortest.Exactly(t, validateCronJobUpdate(both, old), `spec.schedule: Invalid value: "TZ=Etc/UTC * * * * *": cannot use both timeZone field and TZ or CRON_TZ in schedule`)
	gone := cronJob()
	gone.Spec.TimeZone = new("Was/There")
	defaultCronJob(gone)
	errortest.Exactly(t, validateCronJobUpdate(gone, gone))
}
