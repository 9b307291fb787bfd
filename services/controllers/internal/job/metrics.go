package job

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// What a reconcile did, and how things ended, in labels of metrics.
const (
	reconciling = "reconciling"
	tracking    = "tracking"
	podsCreated = "pods_created"
	podsDeleted = "pods_deleted"

	succeeded = "succeeded"
	failed    = "failed"
)

// metrics are Kubernetes' (kubernetes, pkg/controller/job/metrics).
type metrics struct {
	duration *prometheus.HistogramVec
	syncs, finished, external, pods, handled,
	terminated, indexes, created *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) metrics {
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	return metrics{
		duration: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "job_controller_job_sync_duration_seconds", Help: "How long reconciles of Jobs took.",
			Buckets: prometheus.ExponentialBuckets(0.004, 2, 15),
		}, []string{"completion_mode", "result", "action"})),
		syncs:      count("job_controller_job_syncs_total", "Reconciles of Jobs, by what they did.", "completion_mode", "result", "action"),
		finished:   count("job_controller_jobs_finished_total", "Jobs that have ended, by why.", "completion_mode", "result", "reason"),
		external:   count("job_controller_jobs_by_external_controller_total", "Jobs that another controller manages.", "controller_name"),
		pods:       count("job_controller_job_pods_finished_total", "Pods of Jobs that have ended and are counted.", "completion_mode", "result"),
		handled:    count("job_controller_pod_failures_handled_by_failure_policy_total", "Failed pods that a rule of a Job's pod failure policy matches, by the rule's action.", "action"),
		terminated: count("job_controller_terminated_pods_tracking_finalizer_total", "Pods that ended with the finalizer batch.kubernetes.io/job-tracking (add), and that lost it afterwards (delete).", "event"),
		indexes:    count("job_controller_job_finished_indexes_total", "Indexes of indexed Jobs that have ended, by where the Job limits failures.", "status", "backoffLimit"),
		created:    count("job_controller_job_pods_creation_total", "Creations of pods for Jobs, by what they replace.", "reason", "status"),
	}
}

// mode returns the completion mode of a Job.
func mode(job *batchv1.Job) string {
	if indexed(job) {
		return string(batchv1.IndexedCompletion)
	}
	return string(batchv1.NonIndexedCompletion)
}

// synced records a reconcile.
func (m metrics) synced(job *batchv1.Job, action string, took time.Duration, err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.duration.WithLabelValues(mode(job), result, action).Observe(took.Seconds())
	m.syncs.WithLabelValues(mode(job), result, action).Inc()
}

// ended records that a Job has ended with a condition.
func (m metrics) ended(job *batchv1.Job, condition *batchv1.JobCondition) {
	result := failed
	if condition.Type == batchv1.JobComplete {
		result = succeeded
	}
	m.finished.WithLabelValues(mode(job), result, condition.Reason).Inc()
}

// counted records what a Job's status counts that it did not before. A Job that was scaled down may count
// fewer indexes, which no counter can.
func (m metrics) counted(job *batchv1.Job, before *batchv1.JobStatus) {
	more := func(of *prometheus.CounterVec, difference int, labels ...string) {
		if difference > 0 {
			of.WithLabelValues(labels...).Add(float64(difference))
		}
	}
	now, all := &job.Status, completions(job)
	done := int(now.Succeeded - before.Succeeded)
	if indexed(job) {
		limit := "global"
		if job.Spec.BackoffLimitPerIndex != nil {
			limit = "perIndex"
			more(m.indexes, parseIndexes(text(now.FailedIndexes), all).total()-parseIndexes(text(before.FailedIndexes), all).total(), failed, limit)
		}
		done = parseIndexes(now.CompletedIndexes, all).total() - parseIndexes(before.CompletedIndexes, all).total()
		more(m.indexes, done, succeeded, limit)
	}
	more(m.pods, done, mode(job), succeeded)
	more(m.pods, int(now.Failed-before.Failed), mode(job), failed)
}

func text(of *string) string {
	if of == nil {
		return ""
	}
	return *of
}

// madePods records creations of pods.
func (p *pass) madePods(attempts, made int) {
	reason := "new"
	switch {
	case replacesFailedOnly(p.job) && p.failed > 0:
		reason = "recreate_failed"
	case p.failed > 0 || p.terminating > 0:
		reason = "recreate_terminating_or_failed"
	}
	if made > 0 {
		p.created.WithLabelValues(reason, succeeded).Add(float64(made))
	}
	if attempts > made {
		p.created.WithLabelValues(reason, failed).Add(float64(attempts - made))
	}
}

// ruledBy records how many failed pods match rules of a pod failure policy.
func (m metrics) ruledBy(pods map[batchv1.PodFailurePolicyAction]int) {
	for action, count := range pods {
		if action != "" {
			m.handled.WithLabelValues(string(action)).Add(float64(count))
		}
	}
}

// ofPods counts the pods that end with the finalizer, and those that lose it.
func (m metrics) ofPods(_ controller.Queue, old, now *corev1.Pod) {
	kept := func(pod *corev1.Pod) bool {
		return pod != nil && tracked(pod) && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed)
	}
	switch was, is := kept(old), kept(now); {
	case is && !was:
		m.terminated.WithLabelValues("add").Inc()
	case was && !is:
		m.terminated.WithLabelValues("delete").Inc()
	}
}

// ofJobs counts the Jobs that come and that another controller manages.
func (m metrics) ofJobs(_ controller.Queue, old, now *batchv1.Job) {
	if old == nil && now != nil && managedElsewhere(now) {
		m.external.WithLabelValues(*now.Spec.ManagedBy).Inc()
	}
}
