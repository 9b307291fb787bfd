package defaults

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestStatefulSet(t *testing.T) {
	s := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{}}}}
	StatefulSet(s)
	s.Spec.Template = corev1.PodTemplateSpec{}
	want := appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), RevisionHistoryLimit: new(int32(10)), PodManagementPolicy: appsv1.OrderedReadyPodManagement,
		UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType, RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
			Partition: new(int32(0)), MaxUnavailable: new(intstr.FromInt32(1)),
		}},
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Retain", WhenScaled: "Retain"},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
			Spec:     corev1.PersistentVolumeClaimSpec{VolumeMode: new(corev1.PersistentVolumeFilesystem)},
			Status:   corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		}},
	}
	if diff := cmp.Diff(want, s.Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s = &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}}}
	StatefulSet(s)
	if s.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("a strategy with a type: got %+v", s.Spec.UpdateStrategy)
	}
}

func TestDaemonSet(t *testing.T) {
	d := &appsv1.DaemonSet{}
	DaemonSet(d)
	if r := d.Spec.UpdateStrategy.RollingUpdate; r.MaxUnavailable.IntVal != 1 || r.MaxSurge.IntVal != 0 || *d.Spec.RevisionHistoryLimit != 10 {
		t.Errorf("got spec %+v", d.Spec)
	}
	d = &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}}}
	DaemonSet(d)
	if d.Spec.UpdateStrategy.RollingUpdate != nil {
		t.Errorf("got spec %+v", d.Spec)
	}
}

func TestReplicationController(t *testing.T) {
	labels := map[string]string{"app": "web"}
	rc := &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Template: &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}}}}
	ReplicationController(rc)
	if *rc.Spec.Replicas != 1 || !cmp.Equal(rc.Spec.Selector, labels) || !cmp.Equal(rc.Labels, labels) || rc.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("got controller %+v", rc)
	}
	rc.Labels["other"] = "x"
	if len(labels) != 1 || len(rc.Spec.Selector) != 1 {
		t.Error("labels, selector and template share a map")
	}
	own := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"c": "d"}, Template: rc.Spec.Template}}
	ReplicationController(own)
	if own.Labels["a"] != "b" || len(own.Labels) != 1 || own.Spec.Selector["c"] != "d" || len(own.Spec.Selector) != 1 {
		t.Errorf("the explicit values became %+v", own)
	}
	ReplicationController(&corev1.ReplicationController{})
}

func TestJob(t *testing.T) {
	spec := func(change func(*batchv1.JobSpec)) batchv1.JobSpec {
		j := &batchv1.Job{}
		change(&j.Spec)
		Job(j)
		j.Spec.Template = corev1.PodTemplateSpec{}
		return j.Spec
	}
	plain := batchv1.JobSpec{
		Completions: new(int32(1)), Parallelism: new(int32(1)), BackoffLimit: new(int32(6)), CompletionMode: new(batchv1.NonIndexedCompletion),
		Suspend: new(false), PodReplacementPolicy: new(batchv1.TerminatingOrFailed), ManualSelector: new(false),
	}
	if diff := cmp.Diff(plain, spec(func(*batchv1.JobSpec) {})); diff != "" {
		t.Errorf("a plain job (-want +got):\n%s", diff)
	}
	if s := spec(func(s *batchv1.JobSpec) { s.Parallelism = new(int32(3)) }); s.Completions != nil || *s.Parallelism != 3 {
		t.Errorf("work queue: got %v completions", s.Completions)
	}
	if s := spec(func(s *batchv1.JobSpec) { s.Completions = new(int32(3)) }); *s.Completions != 3 || *s.Parallelism != 1 {
		t.Errorf("job of three: got %d completions and parallelism %d", *s.Completions, *s.Parallelism)
	}
	if s := spec(func(s *batchv1.JobSpec) { s.BackoffLimitPerIndex = new(int32(1)) }); *s.BackoffLimit != math.MaxInt32 {
		t.Errorf("with a limit per index: got limit %d", *s.BackoffLimit)
	}
	s := spec(func(s *batchv1.JobSpec) {
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: "x"}, {Status: "False"}}}}}
	})
	if p := s.PodFailurePolicy.Rules[0].OnPodConditions; *s.PodReplacementPolicy != batchv1.Failed || p[0].Status != "True" || p[1].Status != "False" {
		t.Errorf("with a failure policy: got spec %+v", s)
	}
	j := &batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}}}
	Job(j)
	j.Labels["c"] = "d"
	if !cmp.Equal(j.Spec.Template.Labels, map[string]string{"a": "b"}) || j.Labels["a"] != "b" {
		t.Errorf("got labels %v, want the template's %v", j.Labels, j.Spec.Template.Labels)
	}
}

func TestCronJob(t *testing.T) {
	c := &batchv1.CronJob{}
	CronJob(c)
	if c.Spec.ConcurrencyPolicy != "Allow" || *c.Spec.Suspend || *c.Spec.SuccessfulJobsHistoryLimit != 3 || *c.Spec.FailedJobsHistoryLimit != 1 {
		t.Errorf("got spec %+v", c.Spec)
	}
	job := c.Spec.JobTemplate.Spec
	if job.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways || job.Completions != nil || job.BackoffLimit != nil {
		t.Errorf("got template %+v", job)
	}
}

func TestHorizontalPodAutoscaler(t *testing.T) {
	a := &autoscalingv2.HorizontalPodAutoscaler{}
	HorizontalPodAutoscaler(a)
	if len(a.Spec.Metrics) != 1 || *a.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 || *a.Spec.MinReplicas != 1 || a.Spec.Behavior != nil {
		t.Errorf("got spec %+v", a.Spec)
	}
	policy := func(kind autoscalingv2.HPAScalingPolicyType, value int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: kind, Value: value, PeriodSeconds: 15}
	}
	a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.MinChangePolicySelect)}}
	HorizontalPodAutoscaler(a)
	want := &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), SelectPolicy: new(autoscalingv2.MinChangePolicySelect), Policies: []autoscalingv2.HPAScalingPolicy{
			policy(autoscalingv2.PodsScalingPolicy, 4), policy(autoscalingv2.PercentScalingPolicy, 100),
		}},
		ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.MaxChangePolicySelect), Policies: []autoscalingv2.HPAScalingPolicy{policy(autoscalingv2.PercentScalingPolicy, 100)}},
	}
	if diff := cmp.Diff(want, a.Spec.Behavior); diff != "" {
		t.Errorf("the behavior (-want +got):\n%s", diff)
	}
}
