// Package ttlafterfinished deletes Jobs some time after they have ended, if they ask for it by
// spec.ttlSecondsAfterFinished (kubernetes, pkg/controller/ttlafterfinished).
package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const workers = 5

// reconciler reconciles Jobs that have ended.
type reconciler struct {
	jobs *controller.Objects[*batchv1.Job]
}

// New declares the controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{jobs: controller.For[*batchv1.Job](d)}
	r.jobs.Wanted = func(job *batchv1.Job) bool { return ended(job) != nil }
	return &controller.Spec{
		Name: "ttl-after-finished-controller", Queue: "ttl_jobs_to_delete", Resource: "jobs", Workers: workers,
		For: r.jobs, Reconcile: r.reconcile,
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	job, found := r.jobs.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	wait, err := left(job)
	if err != nil || wait != 0 {
		return reconcile.Result{RequeueAfter: max(wait, 0)}, err
	}
	// The cache may not show yet that the time was prolonged.
	fresh, err := r.jobs.Client.Get(ctx, key.Namespace, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading Job %s: %w", key, err)
	}
	if wait, err = left(fresh); err != nil || wait != 0 {
		return reconcile.Result{RequeueAfter: max(wait, 0)}, err
	}
	policy := metav1.DeletePropagationForeground
	err = r.jobs.Client.Delete(ctx, key.Namespace, key.Name, metav1.DeleteOptions{
		PropagationPolicy: &policy, Preconditions: metav1.NewUIDPreconditions(string(fresh.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("deleting Job %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}

// never means that a Job is not to be deleted.
const never = time.Duration(-1)

// left returns after what time a Job is to be deleted: 0 for now, or never.
func left(job *batchv1.Job) (time.Duration, error) {
	condition := ended(job)
	if condition == nil {
		return never, nil
	}
	if condition.LastTransitionTime.IsZero() {
		return never, reconcile.TerminalError(fmt.Errorf("unable to find the time when the Job %s/%s finished", job.Namespace, job.Name))
	}
	expires := condition.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second)
	return max(time.Until(expires), 0), nil
}

// ended returns the condition that a Job has ended; nil if it has not, or is not to be deleted.
func ended(job *batchv1.Job) *batchv1.JobCondition {
	if job.Spec.TTLSecondsAfterFinished == nil || job.DeletionTimestamp != nil {
		return nil
	}
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}
