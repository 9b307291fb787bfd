package columns

import (
	"reflect"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
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
	c := New()
	c.now = func() time.Time { return now }
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
		}}, []any{"x", "Complete", "2/1 of 4", "10m", "3h", "", "", none}},
		{"failed job", &batchv1.Job{ObjectMeta: deleted, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailed, corev1.ConditionTrue)}},
			[]any{"x", "Failed", "0/1", "", "3h", "", "", none}},
		{"job being deleted", &batchv1.Job{ObjectMeta: deleted, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionTrue)}},
			[]any{"x", "Terminating", "0/1", "", "3h", "", "", none}},
		{"suspended job", &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionTrue)}},
			[]any{"x", "Suspended", "0/1", "", "3h", "", "", none}},
		{"resumed job", &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobSuspended, corev1.ConditionFalse)}},
			[]any{"x", "Running", "0/1", "", "3h", "", "", none}},
		{"failing job", &batchv1.Job{ObjectMeta: meta, Status: batchv1.JobStatus{Conditions: condition(batchv1.JobFailureTarget, corev1.ConditionTrue)}},
			[]any{"x", "FailureTarget", "0/1", "", "3h", "", "", none}},
		{"cron job", &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{
			Schedule: "* * * * *", TimeZone: new("Etc/UTC"), Suspend: new(false), JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}},
		}, Status: batchv1.CronJobStatus{Active: make([]corev1.ObjectReference, 2), LastScheduleTime: new(ago(5 * time.Minute))}},
			[]any{"x", "* * * * *", "Etc/UTC", "False", int64(2), "5m", "3h", "a,b", "i:1,j", none}},
		{"bare cron job", &batchv1.CronJob{ObjectMeta: meta}, []any{"x", "", none, unset, int64(0), none, "3h", "", "", none}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := c.Table(table.KindOf(tc.obj).GroupVersionKind, []scheme.Object{tc.obj}, nil, nil).Rows[0].Cells
			if !reflect.DeepEqual(got, tc.cells) {
				t.Errorf("got  %v\nwant %v", got, tc.cells)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	value := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	resources := func(target autoscalingv2.MetricTarget) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: target}}
	}
	measured := func(now autoscalingv2.MetricValueStatus) autoscalingv2.MetricStatus {
		return autoscalingv2.MetricStatus{Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu", Current: now}}
	}
	cpu := resources(autoscalingv2.MetricTarget{AverageUtilization: new(int32(80))})
	for _, tc := range []struct {
		name     string
		specs    []autoscalingv2.MetricSpec
		statuses []autoscalingv2.MetricStatus
		want     string
	}{
		{"none", nil, nil, none},
		{"cpu", []autoscalingv2.MetricSpec{cpu}, nil, "cpu: <unknown>/80%"},
		{"measured cpu", []autoscalingv2.MetricSpec{cpu}, []autoscalingv2.MetricStatus{measured(autoscalingv2.MetricValueStatus{AverageUtilization: new(int32(50))})}, "cpu: 50%/80%"},
		{"no target", []autoscalingv2.MetricSpec{resources(autoscalingv2.MetricTarget{})}, nil, "cpu: <unknown>/<auto>"},
		{"memory", []autoscalingv2.MetricSpec{resources(autoscalingv2.MetricTarget{AverageValue: value("1Gi")})},
			[]autoscalingv2.MetricStatus{measured(autoscalingv2.MetricValueStatus{AverageValue: value("1Mi")})}, "cpu: 1Mi/1Gi"},
		{"container", []autoscalingv2.MetricSpec{{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: "memory", Target: autoscalingv2.MetricTarget{AverageUtilization: new(int32(3))},
		}}}, nil, "memory: <unknown>/3%"},
		{"pods", []autoscalingv2.MetricSpec{{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: value("9")}}}},
			[]autoscalingv2.MetricStatus{{Pods: &autoscalingv2.PodsMetricStatus{Current: autoscalingv2.MetricValueStatus{AverageValue: value("4")}}}}, "4/9"},
		{"object", []autoscalingv2.MetricSpec{{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{Target: autoscalingv2.MetricTarget{Value: value("9")}}}},
			[]autoscalingv2.MetricStatus{{Object: &autoscalingv2.ObjectMetricStatus{Current: autoscalingv2.MetricValueStatus{Value: value("4")}}}}, "4/9"},
		{"external average", []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Target: autoscalingv2.MetricTarget{AverageValue: value("9")}}}},
			[]autoscalingv2.MetricStatus{{External: &autoscalingv2.ExternalMetricStatus{Current: autoscalingv2.MetricValueStatus{Value: value("4")}}}}, "<unknown>/9 (avg)"},
		{"many", []autoscalingv2.MetricSpec{cpu, cpu, cpu, cpu}, nil, "cpu: <unknown>/80%, cpu: <unknown>/80% + 2 more..."},
		{"odd", []autoscalingv2.MetricSpec{{Type: "Odd"}}, nil, "<unknown type>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := metrics(tc.specs, tc.statuses); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	first := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MaxReplicas: 5, TargetCPUUtilizationPercentage: new(int32(60)),
	}}
	if got, want := horizontalPodAutoscalersV1().cells(first, now), []any{"x", "Deployment/web", "cpu: <unknown>/60%", unset, int64(5), int64(0), unknown}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	a := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: ago(time.Hour)}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web"}, MinReplicas: new(int32(2)), MaxReplicas: 5,
	}, Status: autoscalingv2.HorizontalPodAutoscalerStatus{CurrentReplicas: 3}}
	if got, want := autoscalerCells(a, now), []any{"x", "Deployment/web", none, "2", int64(5), int64(3), "60m"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestScale(t *testing.T) {
	c := New()
	c.now = func() time.Time { return now }
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: ago(3 * time.Hour)},
		Spec:       autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 2},
	}
	table := c.Table(autoscalingv1.SchemeGroupVersion.WithKind("Scale"), []scheme.Object{scale}, nil, nil)
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
