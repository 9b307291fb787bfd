package batch

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour)}
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "b": "c"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i:1"}, {Name: "b", Image: "j"}}, NodeSelector: map[string]string{"disk": "ssd"}},
	}
	condition := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) []batchv1.JobCondition {
		return []batchv1.JobCondition{{Type: kind, Status: status}}
	}
	deleted := meta
	deleted.DeletionTimestamp = new(kindtest.Ago(0))
	for _, tc := range []struct {
		name  string
		kind  *kinds.Definition
		obj   scheme.Object
		cells []any
	}{
		{"running job", Job(), &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Completions: new(int32(3)), Selector: labels, Template: pods},
			Status: batchv1.JobStatus{Succeeded: 1, StartTime: new(kindtest.Ago(time.Hour))}}, []any{"x", "Running", "1/3", "60m", "3h", "a,b", "i:1,j", "app=web"}},
		{"complete job", Job(), &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: new(int32(4))}, Status: batchv1.JobStatus{
			Succeeded: 2, StartTime: new(kindtest.Ago(time.Hour)), CompletionTime: new(kindtest.Ago(50 * time.Minute)), Conditions: condition(batchv1.JobComplete, corev1.ConditionTrue),
		}}, []any{"x", "Complete", "2/1 of 4", "10m", "3h", "", "", columns.None}},
		{"failed job", Job(), &batchv1.Job{ObjectMeta: deleted, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailed, corev1.ConditionTrue)}},
			[]any{"x", "Failed", "0/1", "", "3h", "", "", columns.None}},
		{"job being deleted", Job(), &batchv1.Job{ObjectMeta: deleted, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionTrue)}},
			[]any{"x", "Terminating", "0/1", "", "3h", "", "", columns.None}},
		{"suspended job", Job(), &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionTrue)}},
			[]any{"x", "Suspended", "0/1", "", "3h", "", "", columns.None}},
		{"resumed job", Job(), &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionFalse)}},
			[]any{"x", "Running", "0/1", "", "3h", "", "", columns.None}},
		{"failing job", Job(), &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailureTarget, corev1.ConditionTrue)}},
			[]any{"x", "FailureTarget", "0/1", "", "3h", "", "", columns.None}},
		{"job that is about to end", Job(), &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuccessCriteriaMet, corev1.ConditionTrue)}},
			[]any{"x", "SuccessCriteriaMet", "0/1", "", "3h", "", "", columns.None}},
		{"cron job", CronJob(), &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			Schedule: "* * * * *", TimeZone: new("Etc/UTC"), Suspend: new(false), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}},
		}, Status: batchv1.CronJobStatus{Active: make([]corev1.ObjectReference, 2), LastScheduleTime: new(kindtest.Ago(5 * time.Minute))}},
			[]any{"x", "* * * * *", "Etc/UTC", "False", int64(2), "5m", "3h", "a,b", "i:1,j", columns.None}},
		{"bare cron job", CronJob(), &batchv1.CronJob{ObjectMeta: meta}, []any{"x", "", columns.None, columns.Unset, int64(0), columns.None, "3h", "", "", columns.None}},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Cells(t, tc.kind, tc.obj, tc.cells) })
	}
}
