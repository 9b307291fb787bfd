package defaults

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Kubernetes' defaults of jobs.
const (
	backoffLimit          = 6
	successfulHistory     = 3
	failedHistory         = 1
	volumeClaimAPIVersion = "v1"
	volumeClaimKind       = "PersistentVolumeClaim"
)

// StatefulSet fills a stateful set and its claims.
func StatefulSet(s *appsv1.StatefulSet) {
	PodTemplate(&s.Spec.Template)
	set(&s.Spec.Replicas, int32(replicas))
	set(&s.Spec.RevisionHistoryLimit, int32(revisionHistory))
	setString(&s.Spec.PodManagementPolicy, appsv1.OrderedReadyPodManagement)
	update := &s.Spec.UpdateStrategy
	if update.Type == "" {
		update.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if update.RollingUpdate == nil {
			update.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if update.Type == appsv1.RollingUpdateStatefulSetStrategyType && update.RollingUpdate != nil {
		set(&update.RollingUpdate.Partition, int32(0))
		set(&update.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	if s.Spec.PersistentVolumeClaimRetentionPolicy == nil {
		s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
	setString(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	setString(&s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType)
	for i := range s.Spec.VolumeClaimTemplates {
		claim := &s.Spec.VolumeClaimTemplates[i]
		claim.APIVersion, claim.Kind = volumeClaimAPIVersion, volumeClaimKind
		PersistentVolumeClaim(claim)
	}
}

// DaemonSet fills a daemon set.
func DaemonSet(d *appsv1.DaemonSet) {
	PodTemplate(&d.Spec.Template)
	set(&d.Spec.RevisionHistoryLimit, int32(revisionHistory))
	setString(&d.Spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if d.Spec.UpdateStrategy.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return
	}
	if d.Spec.UpdateStrategy.RollingUpdate == nil {
		d.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
	}
	set(&d.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	set(&d.Spec.UpdateStrategy.RollingUpdate.MaxSurge, intstr.FromInt32(0))
}

// ReplicationController fills a replication controller: it selects by the labels of its template,
// and has them itself, if it does not say otherwise.
func ReplicationController(rc *corev1.ReplicationController) {
	set(&rc.Spec.Replicas, int32(replicas))
	if rc.Spec.Template == nil {
		return
	}
	PodTemplate(rc.Spec.Template)
	if len(rc.Spec.Selector) == 0 {
		rc.Spec.Selector = maps.Clone(rc.Spec.Template.Labels)
	}
	if len(rc.Labels) == 0 {
		rc.Labels = maps.Clone(rc.Spec.Template.Labels)
	}
}

// PodTemplateObject fills a pod template that is an object of its own.
func PodTemplateObject(t *corev1.PodTemplate) { PodTemplate(&t.Template) }

// Job fills a job. Without labels it gets those of its template.
func Job(j *batchv1.Job) {
	jobTemplate(&j.Spec)
	if j.Spec.Parallelism == nil {
		if j.Spec.Completions == nil {
			j.Spec.Completions = new(int32(1))
		}
		j.Spec.Parallelism = new(int32(1))
	}
	limit := int32(backoffLimit)
	if j.Spec.BackoffLimitPerIndex != nil {
		limit = math.MaxInt32
	}
	set(&j.Spec.BackoffLimit, limit)
	set(&j.Spec.CompletionMode, batchv1.NonIndexedCompletion)
	set(&j.Spec.Suspend, false)
	replacement := batchv1.TerminatingOrFailed
	if j.Spec.PodFailurePolicy != nil {
		replacement = batchv1.Failed
	}
	set(&j.Spec.PodReplacementPolicy, replacement)
	set(&j.Spec.ManualSelector, false)
	if len(j.Labels) == 0 {
		j.Labels = maps.Clone(j.Spec.Template.Labels)
	}
}

// CronJob fills a cron job; of its jobs only what does not depend on them being created.
func CronJob(c *batchv1.CronJob) {
	jobTemplate(&c.Spec.JobTemplate.Spec)
	setString(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	set(&c.Spec.Suspend, false)
	set(&c.Spec.SuccessfulJobsHistoryLimit, int32(successfulHistory))
	set(&c.Spec.FailedJobsHistoryLimit, int32(failedHistory))
}

// jobTemplate fills what jobs and the templates of jobs have in common.
func jobTemplate(spec *batchv1.JobSpec) {
	PodTemplate(&spec.Template)
	if spec.PodFailurePolicy == nil {
		return
	}
	for i := range spec.PodFailurePolicy.Rules {
		patterns := spec.PodFailurePolicy.Rules[i].OnPodConditions
		for j := range patterns {
			setString(&patterns[j].Status, corev1.ConditionTrue)
		}
	}
}
