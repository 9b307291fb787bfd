// Package podgc deletes the pods that nobody else will: those whose node is gone or out of service, those
// that are to end before they have a node, and the oldest of too many that have ended (kubernetes,
// pkg/controller/podgc).
package podgc

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	// threshold is how many pods that have ended may exist (kube-controller-manager,
	// --terminated-pod-gc-threshold).
	threshold = 12500
	// period is the time between two looks at all pods.
	period = 20 * time.Second
	// quarantine is how long a node must be gone before its pods are deleted: it may just be registering
	// anew.
	quarantine = 40 * time.Second
)

// reconciler reconciles nodes, those that are gone included.
type reconciler struct {
	nodes     *controller.Objects[*corev1.Node]
	pods      informer.SharedInformer[*corev1.Pod]
	podClient client.Resource[*corev1.Pod]
	threshold int
	logger    *slog.Logger
	// deletions and faults count the pods that were to be deleted, and those that could not be, under
	// Kubernetes' names.
	deletions, faults *prometheus.CounterVec

	mu   sync.Mutex
	gone map[string]time.Time // by node: since when it is known to be gone
}

// New declares the controller.
func New(d controller.Deps) *controller.Spec { return declare(d, threshold) }

func declare(d controller.Deps, threshold int) *controller.Spec {
	r := &reconciler{
		nodes: controller.For[*corev1.Node](d), pods: informer.For[*corev1.Pod](d.Informers),
		podClient: client.Of[*corev1.Pod](d.Client), threshold: threshold, logger: d.Logger,
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return metric.Register(d.Registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"namespace", "reason"}))
	}
	r.deletions = counter("pod_gc_collector_force_delete_pods_total", "Pods that were deleted because no node will end them, or too many have ended.")
	r.faults = counter("pod_gc_collector_force_delete_pod_errors_total", "Pods that were to be deleted for the same reasons, and could not be.")
	r.nodes.Changed = func(old, now *corev1.Node) bool { return outOfService(now) && !outOfService(old) }
	return &controller.Spec{
		Name: "pod-garbage-collector-controller", Queue: "orphaned_pods_nodes", Resource: "nodes",
		For: r.nodes, Watches: []controller.Watch{controller.On(r.pods, r.podChanged)}, Reconcile: r.reconcile,
		Begin: r.begin, Also: []func(context.Context) error{r.sweep},
	}
}

// begin forgets since when nodes are gone, for nothing watched them between two terms.
func (r *reconciler) begin(controller.Queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = map[string]time.Time{}
}

// podChanged asks for a look at the node of a pod, if it is gone or the pod is to end there.
func (r *reconciler) podChanged(q controller.Queue, _, pod *corev1.Pod) {
	if pod == nil || pod.Spec.NodeName == "" {
		return
	}
	if node, found := r.nodes.Indexer().GetByKey(pod.Spec.NodeName); !found || pod.DeletionTimestamp != nil && outOfService(node) {
		q.AddName("", pod.Spec.NodeName)
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	node, found := r.nodes.Get(key)
	if found {
		r.notGone(key.Name)
		if !outOfService(node) {
			return reconcile.Result{}, nil
		}
	}
	pods := r.podsOn(key.Name)
	if len(pods) == 0 {
		r.notGone(key.Name)
		return reconcile.Result{}, nil
	}
	if found {
		return reconcile.Result{}, r.end(ctx, pods, "out-of-service", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }, nil)
	}
	now := time.Now()
	if left := r.goneSince(key.Name, now).Add(quarantine).Sub(now); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	_, err := r.nodes.Client.Get(ctx, "", key.Name, metav1.GetOptions{})
	if err == nil {
		r.notGone(key.Name)
		return reconcile.Result{RequeueAfter: quarantine}, nil
	}
	if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("reading node %s: %w", key, err)
	}
	r.logger.Info("deleting the pods of a node that is gone", "node", key.Name, "pods", len(pods))
	return reconcile.Result{}, r.end(ctx, pods, "orphaned", func(*corev1.Pod) bool { return true }, &corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue,
		Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
	})
}

// goneSince returns since when a node is known to be gone.
func (r *reconciler) goneSince(node string, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.gone[node]; !known {
		r.gone[node] = now
	}
	return r.gone[node]
}

func (r *reconciler) notGone(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.gone, node)
}

// podsOn returns the pods of a node.
func (r *reconciler) podsOn(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range r.pods.Indexer().List() {
		if pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

// outOfService reports whether an administrator has declared that a node, which is not ready, will run
// its pods no more.
func outOfService(node *corev1.Node) bool {
	tainted := false
	for i := range node.Spec.Taints {
		tainted = tainted || node.Spec.Taints[i].Key == corev1.TaintNodeOutOfService
	}
	if !tainted {
		return false
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status != corev1.ConditionTrue
		}
	}
	return true
}
