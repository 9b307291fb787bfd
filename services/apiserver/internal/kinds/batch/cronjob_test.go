package batch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

func TestDefaultCronJob(t *testing.T) {
	c := &batchv1.CronJob{}
	defaultCronJob(c)
	if c.Spec.ConcurrencyPolicy != "Allow" || *c.Spec.Suspend || *c.Spec.SuccessfulJobsHistoryLimit != 3 || *c.Spec.FailedJobsHistoryLimit != 1 {
		t.Errorf("got spec %+v", c.Spec)
	}
	job := c.Spec.JobTemplate.Spec
	if job.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways || job.Completions != nil || job.BackoffLimit != nil {
		t.Errorf("got template %+v", job)
	}
}

func TestCronJobGenerations(t *testing.T) {
	obj := kindtest.Sample[*batchv1.CronJob](t, CronJob())
	changed := obj.DeepCopy()
	changed.Spec.Schedule = "@daily"
	kindtest.Generations(t, CronJob(), obj, changed)
}

func TestCronJobWarnings(t *testing.T) {
	zoned := kindtest.Sample[*batchv1.CronJob](t, CronJob())
	zoned.Spec.Schedule, zoned.Name = "TZ=Etc/UTC * * * * *", "a.b"
	zoned.Spec.JobTemplate.Spec.Template.Spec.NodeSelector = map[string]string{"beta.kubernetes.io/os": "x"}
	if got := CronJob().Update.Warnings(zoned, zoned); len(got) != 1 {
		t.Errorf("an unchanged cron job: got warnings %q, want the one about its schedule", got)
	}
	want := []string{`spec.jobTemplate.spec.template.spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`}
	if diff := cmp.Diff(want, CronJob().Warnings(zoned)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	old := zoned.DeepCopy()
	zoned.Generation++
	want = append(want, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
	if diff := cmp.Diff(want, CronJob().Update.Warnings(zoned, old)); diff != "" {
		t.Errorf("warnings of an update (-want +got):\n%s", diff)
	}
	want = []string{"metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]"}
	if diff := cmp.Diff(want, CronJob().CreationWarnings(zoned)); diff != "" {
		t.Errorf("warnings of its creation (-want +got):\n%s", diff)
	}
}
