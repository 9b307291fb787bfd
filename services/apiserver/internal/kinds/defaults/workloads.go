package defaults

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Kubernetes' defaults for jobs and volume claims.
const (
	backoffLimit          = 6
	successfulHistory     = 3
	failedHistory         = 1
	volumeClaimAPIVersion = "v1"
	volumeClaimKind       = "PersistentVolumeClaim"
)

// StatefulSet sets the defaults of a stateful set and its claims.
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

// DaemonSet sets the defaults of a daemon set.
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

// ReplicationController sets the defaults of a replication controller: its selector and its own
// labels default to its template's labels.
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

// PodTemplateObject sets the defaults of a PodTemplate object.
func PodTemplateObject(t *corev1.PodTemplate) { PodTemplate(&t.Template) }

// Job sets the defaults of a job. A job without labels gets its template's.
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

// CronJob sets the defaults of a cron job; in its job template, only those that don't depend on the
// job's creation.
func CronJob(c *batchv1.CronJob) {
	jobTemplate(&c.Spec.JobTemplate.Spec)
	setString(&c.Spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	set(&c.Spec.Suspend, false)
	set(&c.Spec.SuccessfulJobsHistoryLimit, int32(successfulHistory))
	set(&c.Spec.FailedJobsHistoryLimit, int32(failedHistory))
}

// jobTemplate sets the defaults that jobs and job templates share.
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
