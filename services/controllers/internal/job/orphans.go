package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// orphans declares the part that removes the finalizer from pods that no Job will count: their Job is
// gone or has ended, or does not control them any more.
func orphans(d controller.Deps, r *reconciler) *controller.Spec {
	pods := controller.For[*corev1.Pod](d)
	pods.Wanted = func(pod *corev1.Pod) bool {
		return tracked(pod) && (pod.DeletionTimestamp != nil || metav1.GetControllerOfNoCopy(pod) == nil)
	}
	jobs := controller.On(r.jobs.SharedInformer, func(q controller.Queue, old, now *batchv1.Job) {
		if now != nil {
			if !finished(now) {
				return
			}
			old = now
		}
		controlled, err := r.pods.Controlled(old)
		if err != nil {
			return // The index exists: r.pods has added it.
		}
		for _, pod := range controlled {
			if tracked(pod) {
				q.Add(pod)
			}
		}
	})
	return &controller.Spec{
		Name: name, Queue: "job_orphan_pod", Resource: "pods", Workers: workers,
		For: pods, Watches: []controller.Watch{jobs},
		Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
			pod, found := pods.Get(key)
			if !found || !tracked(pod) || !r.orphaned(pod) {
				return reconcile.Result{}, nil
			}
			if err := r.untrack(ctx, pod); err != nil {
				return reconcile.Result{}, fmt.Errorf("removing the finalizer of a pod without a Job: %w", err)
			}
			return reconcile.Result{}, nil
		},
	}
}

// orphaned reports whether no Job of this controller will count a pod.
func (r *reconciler) orphaned(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true
	}
	if kind := r.control.Kind; ref.Kind != kind.Kind || ref.APIVersion != kind.GroupVersion().String() {
		return false
	}
	job, found := r.pods.Owner(pod)
	return !found || finished(job) && !managedElsewhere(job)
}
