package batch

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
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
