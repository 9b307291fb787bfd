package job

import (
	"math"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

// defaultBackoffLimit is how often pods may fail unless a Job says otherwise (Kubernetes, defaults of
// batch/v1). The apiserver fills in this and the other defaults.
const defaultBackoffLimit = 6

func indexed(job *batchv1.Job) bool {
	return job.Spec.CompletionMode != nil && *job.Spec.CompletionMode == batchv1.IndexedCompletion
}

func suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// replacesFailedOnly reports whether a pod is replaced only once it has ended.
func replacesFailedOnly(job *batchv1.Job) bool {
	return job.Spec.PodReplacementPolicy != nil && *job.Spec.PodReplacementPolicy == batchv1.Failed
}

// completions returns how many pods are to succeed; 0 when a Job does not say, which indexed ones must.
func completions(job *batchv1.Job) int {
	if job.Spec.Completions == nil {
		return 0
	}
	return int(*job.Spec.Completions)
}

func parallelism(job *batchv1.Job) int {
	if job.Spec.Parallelism == nil {
		return 1
	}
	return int(*job.Spec.Parallelism)
}

func backoffLimit(job *batchv1.Job) int {
	switch {
	case job.Spec.BackoffLimit != nil:
		return int(*job.Spec.BackoffLimit)
	case job.Spec.BackoffLimitPerIndex != nil:
		return math.MaxInt32
	default:
		return defaultBackoffLimit
	}
}

// seconds returns a duration; the longest there is if it is longer.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
}
