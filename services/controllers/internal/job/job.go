// Package job runs the pods of Jobs until they have succeeded as often as asked for, as Kubernetes' Job
// controller does (kubernetes, pkg/controller/job).
//
// Each pod is counted exactly once. Its finalizer batch.kubernetes.io/job-tracking keeps it until its UID
// is in the status, among the uncounted; the status is written, the finalizer is removed, and only then
// does the status count the pod. A crash between any two of these steps leaves the pod in one of them.
// Of an indexed Job's succeeded pods the index is what counts.
package job

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podcontrol"
)

const (
	name    = "job-controller"
	workers = 5
	// batchPeriod is how long changes of pods and of the status wait, so that one reconcile follows many.
	batchPeriod = time.Second
	// burst bounds the pods created or deleted in one reconcile, and the pods in the status that are not
	// counted yet.
	burst = 500
	// atOnce bounds the calls in flight for one Job, except creations.
	atOnce = 50
)

// reconciler reconciles Jobs.
type reconciler struct {
	jobs     *controller.Objects[*batchv1.Job]
	pods     *controller.Owned[*corev1.Pod, *batchv1.Job]
	control  *podcontrol.Control
	events   *events.Recorder
	failures history
	metrics
}

// New declares the Job controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{jobs: controller.For[*batchv1.Job](d), events: d.Events(name), metrics: newMetrics(d.Registerer)}
	r.jobs.Changed = func(_, now *batchv1.Job) bool { return !finished(now) }
	r.jobs.Delay = func(old, now *batchv1.Job) time.Duration {
		if old.Generation == now.Generation {
			return batchPeriod
		}
		return 0
	}
	r.pods = controller.OwnedBy[*corev1.Pod](d, r.jobs)
	r.pods.Delay = batchPeriod
	r.pods.Finalizers = []string{batchv1.JobTrackingFinalizer}
	r.pods.Selects = func(job *batchv1.Job) (labels.Selector, error) {
		return metav1.LabelSelectorAsSelector(job.Spec.Selector)
	}
	r.control = &podcontrol.Control{Pods: r.pods.Client, Kind: r.jobs.Client.Kind().GroupVersionKind, Events: r.events}
	return &controller.Spec{
		Name: name, Resource: "jobs", Workers: workers, Events: r.events,
		For: r.jobs, Reconcile: r.reconcile, Begin: r.failures.clear,
		Watches: []controller.Watch{r.pods, controller.On(r.pods.SharedInformer, r.ofPods), controller.On(r.jobs.SharedInformer, r.ofJobs)},
		Beside:  []*controller.Spec{orphans(d, r)},
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	shared, found := r.jobs.Get(key)
	if !found || finished(shared) {
		r.failures.forget(key.String())
		return reconcile.Result{}, nil
	}
	if managedElsewhere(shared) {
		return reconcile.Result{}, nil
	}
	job := shared.DeepCopy()
	if mode := job.Spec.CompletionMode; mode != nil && *mode != batchv1.NonIndexedCompletion && *mode != batchv1.IndexedCompletion {
		r.events.Event(job, corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return reconcile.Result{}, nil
	}
	began, action := time.Now(), reconciling
	result, err := r.sync(ctx, key, job, &action)
	r.synced(job, action, time.Since(began), err)
	return result, err
}

// sync reconciles a Job, and sets action to what it does for the Job's pods.
func (r *reconciler) sync(ctx context.Context, key controller.Key, job *batchv1.Job, action *string) (reconcile.Result, error) {
	pods, err := r.claim(ctx, job)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := r.newPass(key.String(), job, pods, time.Now())
	p.judge()
	manageErr := p.act(ctx)
	*action = p.action
	if err := p.track(ctx); err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("counting the pods of Job %s: %w", key, err)
	}
	if manageErr != nil {
		return reconcile.Result{}, fmt.Errorf("managing the pods of Job %s: %w", key, manageErr)
	}
	return reconcile.Result{RequeueAfter: p.again}, nil
}

// claim returns the pods of a Job, after adopting and releasing as needed. An adopted pod has the
// finalizer, though the cache may not show it yet.
func (r *reconciler) claim(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	if _, err := r.pods.Selects(job); err != nil {
		return nil, reconcile.TerminalError(fmt.Errorf("reading the selector of Job %s/%s: %w", job.Namespace, job.Name, err))
	}
	candidates, err := r.pods.Of(job)
	if err != nil {
		return nil, err
	}
	pods, err := r.pods.Claim(ctx, job, candidates)
	if err != nil {
		return nil, err
	}
	for i, pod := range pods {
		if !metav1.IsControlledBy(pod, job) && !tracked(pod) {
			pods[i] = pod.DeepCopy()
			pods[i].Finalizers = append(pods[i].Finalizers, batchv1.JobTrackingFinalizer)
		}
	}
	return pods, nil
}

// finished reports whether a Job has ended for good.
func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}

// managedElsewhere reports whether another controller is to manage a Job.
func managedElsewhere(job *batchv1.Job) bool {
	return job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName
}

// tracked reports whether a pod has the finalizer that keeps it until it is counted.
func tracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}
