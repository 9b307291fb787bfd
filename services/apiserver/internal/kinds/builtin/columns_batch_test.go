package builtin

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

func TestWorkloadRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: ago(3 * time.Hour)}
	labels := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	pods := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "b": "c"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "i:1"}, {Name: "b", Image: "j"}}, NodeSelector: map[string]string{"disk": "ssd"}},
	}
	condition := func(kind batchv1.JobConditionType, status corev1.ConditionStatus) []batchv1.JobCondition {
		return []batchv1.JobCondition{{Type: kind, Status: status}}
	}
	deleted := meta
	deleted.DeletionTimestamp = new(ago(0))
	table := scheme.New()
	for _, tc := range []struct {
		name  string
		obj   scheme.Object
		cells []any
	}{
		{"stateful set", &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), Template: pods}, Status: appsv1.StatefulSetStatus{ReadyReplicas: 2}},
			[]any{"x", "2/3", "3h", "a,b", "i:1,j"}},
		{"daemon set", &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: labels, Template: pods}, Status: appsv1.DaemonSetStatus{
			DesiredNumberScheduled: 5, CurrentNumberScheduled: 4, NumberReady: 3, UpdatedNumberScheduled: 2, NumberAvailable: 1,
		}}, []any{"x", int64(5), int64(4), int64(3), int64(2), int64(1), "disk=ssd", "3h", "a,b", "i:1,j", "app=web"}},
		{"replication controller", &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{
			Replicas: new(int32(3)), Selector: map[string]string{"app": "web"}, Template: &pods,
		}, Status: corev1.ReplicationControllerStatus{Replicas: 2, ReadyReplicas: 1}}, []any{"x", int64(3), int64(2), int64(1), "3h", "a,b", "i:1,j", "app=web"}},
		{"pod template", &corev1.PodTemplate{ObjectMeta: meta, Template: pods}, []any{"x", "a,b", "i:1,j", "app=web,b=c"}},
		{"running job", &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Completions: new(int32(3)), Selector: labels, Template: pods},
			Status: batchv1.JobStatus{Succeeded: 1, StartTime: new(ago(time.Hour))}}, []any{"x", "Running", "1/3", "60m", "3h", "a,b", "i:1,j", "app=web"}},
		{"complete job", &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: new(int32(4))}, Status: batchv1.JobStatus{
			Succeeded: 2, StartTime: new(ago(time.Hour)), CompletionTime: new(ago(50 * time.Minute)), Conditions: condition(batchv1.JobComplete, corev1.ConditionTrue),
		}}, []any{"x", "Complete", "2/1 of 4", "10m", "3h", "", "", columns.None}},
		{"failed job", &batchv1.Job{ObjectMeta: deleted, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailed, corev1.ConditionTrue)}},
			[]any{"x", "Failed", "0/1", "", "3h", "", "", columns.None}},
		{"job being deleted", &batchv1.Job{ObjectMeta: deleted, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionTrue)}},
			[]any{"x", "Terminating", "0/1", "", "3h", "", "", columns.None}},
		{"suspended job", &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionTrue)}},
			[]any{"x", "Suspended", "0/1", "", "3h", "", "", columns.None}},
		{"resumed job", &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionFalse)}},
			[]any{"x", "Running", "0/1", "", "3h", "", "", columns.None}},
		{"failing job", &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailureTarget, corev1.ConditionTrue)}},
			[]any{"x", "FailureTarget", "0/1", "", "3h", "", "", columns.None}},
		{"cron job", &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			Schedule: "* * * * *", TimeZone: new("Etc/UTC"), Suspend: new(false), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}},
		}, Status: batchv1.CronJobStatus{Active: make([]corev1.ObjectReference, 2), LastScheduleTime: new(ago(5 * time.Minute))}},
			[]any{"x", "* * * * *", "Etc/UTC", "False", int64(2), "5m", "3h", "a,b", "i:1,j", columns.None}},
		{"bare cron job", &batchv1.CronJob{ObjectMeta: meta}, []any{"x", "", columns.None, columns.Unset, int64(0), columns.None, "3h", "", "", columns.None}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := All(Config{})[table.KindOf(tc.obj).GroupVersionKind].Columns.Table([]scheme.Object{tc.obj}, nil, nil, now).Rows[0].Cells
			if !reflect.DeepEqual(got, tc.cells) {
				t.Errorf("got  %v\nwant %v", got, tc.cells)
			}
		})
	}
}

func TestScale(t *testing.T) {
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: ago(3 * time.Hour)},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 2},
	}
	table := All(Config{})[autoscalingv1.SchemeGroupVersion.WithKind("Scale")].Columns.Table([]scheme.Object{scale}, nil, nil, now)
	var names []string
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
	}
	if want := []string{"Name", "Desired", "Available", "Age"}; !reflect.DeepEqual(names, want) {
		t.Errorf("got columns %v, want %v", names, want)
	}
	if want := []any{"x", int64(3), int64(2), "3h"}; !reflect.DeepEqual(table.Rows[0].Cells, want) {
		t.Errorf("got %v, want %v", table.Rows[0].Cells, want)
	}
}
