// Package tainteviction deletes pods that do not, or no longer, tolerate the NoExecute taints of their
// nodes (kubernetes, pkg/controller/tainteviction).
package tainteviction

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podeviction"
)

const (
	name      = "taint-eviction-controller"
	nodeIndex = "node"
	workers   = 8
	// reason is that of all Events.
	reason = "TaintManagerEviction"
)

// reconciler reconciles pods.
type reconciler struct {
	pods    *controller.Objects[*corev1.Pod]
	nodes   informer.SharedInformer[*corev1.Node]
	events  *events.Recorder
	metrics podeviction.Metrics
	logger  *slog.Logger

	// Those are of one term.
	mu    sync.Mutex
	since map[types.UID]time.Time // by pod: when its node was first seen with taints that do not say when they were added
	plans map[types.UID]time.Time // by pod: when it will be deleted
}

// New declares the controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		pods: controller.For[*corev1.Pod](d), nodes: informer.For[*corev1.Node](d.Informers),
		events: d.Events(name), metrics: podeviction.ByNodeTaints(d.Registerer), logger: d.Logger,
	}
	r.pods.Handle = r.podChanged
	return &controller.Spec{
		Name: name, Resource: "pods", Workers: workers, Unhurried: true, Begin: r.begin, Events: r.events, For: r.pods,
		Watches: []controller.Watch{byNode(r.pods.SharedInformer), controller.On(r.nodes, r.nodeChanged)}, Reconcile: r.reconcile,
	}
}

// byNode returns the watch of pods through the index of their nodes.
func byNode(pods informer.SharedInformer[*corev1.Pod]) controller.Watch {
	return controller.Indexed(pods, nodeIndex, func(pod *corev1.Pod) ([]string, error) {
		if pod.Spec.NodeName == "" {
			return nil, nil
		}
		return []string{pod.Spec.NodeName}, nil
	})
}

func (r *reconciler) begin(controller.Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.plans = map[types.UID]time.Time{}, map[types.UID]time.Time{}
}

// podChanged asks for a reconcile of a pod whose node has NoExecute taints.
func (r *reconciler) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if old != nil && (now == nil || now.UID != old.UID) {
		if r.forget(old) {
			r.cancelled(old)
		}
	}
	if now == nil || now.Spec.NodeName == "" {
		return
	}
	if node, found := r.nodes.Indexer().GetByKey(now.Spec.NodeName); found && len(noExecute(node)) > 0 {
		q.Add(now)
	}
}

// nodeChanged asks for reconciles of the pods of a node that is new, or whose taints have changed.
func (r *reconciler) nodeChanged(q controller.Queue, old, now *corev1.Node) {
	if now == nil || old != nil && sameTaints(noExecute(old), noExecute(now)) {
		return
	}
	pods, err := r.pods.Indexer().ByIndex(nodeIndex, now.Name)
	if err != nil {
		r.logger.Error("finding the pods of a node", "node", now.Name, "err", err)
		return
	}
	for _, pod := range pods {
		q.Add(pod)
	}
}

func sameTaints(a, b []corev1.Taint) bool {
	return slices.EqualFunc(a, b, func(x, y corev1.Taint) bool {
		return x.Key == y.Key && x.Value == y.Value && x.Effect == y.Effect && x.TimeAdded.Equal(y.TimeAdded)
	})
}

// reconcile deletes a pod that does not, or no longer, tolerate its node's NoExecute taints.
func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	pod, found := r.pods.Get(key)
	if !found || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	now := time.Now()
	leaves, at := r.departs(pod, now)
	switch {
	case !leaves:
		return reconcile.Result{}, nil
	case at.After(now):
		return reconcile.Result{RequeueAfter: at.Sub(now)}, nil
	default:
		return reconcile.Result{}, r.evict(ctx, pod, at)
	}
}

// departs reports whether a pod must leave its node, and when. A departure in the future is kept as a plan:
// it is not put off, and an Event tells if it is dropped.
func (r *reconciler) departs(pod *corev1.Pod, now time.Time) (leaves bool, at time.Time) {
	node, found := r.nodes.Indexer().GetByKey(pod.Spec.NodeName)
	if !found {
		return r.planned(pod) // Of a node that is gone nobody knows whether its taints have ended.
	}
	taints := noExecute(node)
	leaves, at = departure(pod.Spec.Tolerations, taints, r.seenSince(pod, len(taints) > 0, now), boundAt(pod))
	planned, before := r.planned(pod)
	if planned && leaves && before.Before(at) {
		at = before
	}
	if leaves && at.After(now) {
		r.plan(pod, at)
		return leaves, at
	}
	r.forgetPlan(pod)
	if planned && (!leaves || before.After(now)) {
		r.cancelled(pod)
	}
	return leaves, at
}

// evict deletes a pod that had to go at a time.
func (r *reconciler) evict(ctx context.Context, pod *corev1.Pod, at time.Time) error {
	r.forgetPlan(pod)
	r.logger.Info("deleting a pod because of its node's taints", "namespace", pod.Namespace, "name", pod.Name, "node", pod.Spec.NodeName)
	r.events.Event(pod, corev1.EventTypeNormal, reason, "Marking for deletion Pod %s/%s", pod.Namespace, pod.Name)
	err := podeviction.Delete(ctx, r.pods.Client, pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		r.plan(pod, at)
		return err
	}
	r.metrics.Deleted(time.Since(at).Seconds())
	return nil
}

func (r *reconciler) cancelled(pod *corev1.Pod) {
	r.events.Event(pod, corev1.EventTypeNormal, reason, "Cancelling deletion of Pod %s/%s", pod.Namespace, pod.Name)
}

// seenSince returns since when a pod's node has been seen with NoExecute taints. It stands in for
// taints that do not say when they were added.
func (r *reconciler) seenSince(pod *corev1.Pod, tainted bool, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !tainted {
		delete(r.since, pod.UID)
		return now
	}
	if _, known := r.since[pod.UID]; !known {
		r.since[pod.UID] = now
	}
	return r.since[pod.UID]
}

// planned reports whether a pod is to be deleted, and when.
func (r *reconciler) planned(pod *corev1.Pod) (planned bool, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, planned = r.plans[pod.UID]
	return planned, at
}

func (r *reconciler) plan(pod *corev1.Pod, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.plans[pod.UID] = at
}

func (r *reconciler) forgetPlan(pod *corev1.Pod) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.plans, pod.UID)
}

// forget drops what is known of a pod that is gone, and reports whether its deletion was planned.
func (r *reconciler) forget(pod *corev1.Pod) (planned bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, planned = r.plans[pod.UID]
	delete(r.since, pod.UID)
	delete(r.plans, pod.UID)
	return planned
}
