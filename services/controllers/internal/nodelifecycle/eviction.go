package nodelifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// evictor reconciles pods.
type evictor struct {
	pods   *controller.Objects[*corev1.Pod]
	nodes  informer.SharedInformer[*corev1.Node]
	events *events.Recorder
	logger *slog.Logger

	// Those are of one term.
	mu    sync.Mutex
	since map[types.UID]time.Time // by pod: when its node was first seen with taints that do not say when they were added
}

// evictions declares the queue of the pods that are driven off their nodes.
func evictions(d controller.Deps, recorder *events.Recorder) *controller.Spec {
	e := &evictor{
		pods: controller.For[*corev1.Pod](d), nodes: informer.For[*corev1.Node](d.Informers),
		events: recorder, logger: d.Logger,
	}
	e.pods.Handle = e.podChanged
	return &controller.Spec{
		Name: evictionName, Resource: "pods", Workers: workers, Unhurried: true, Begin: e.begin, For: e.pods,
		Watches: []controller.Watch{byNode(e.pods.SharedInformer), controller.On(e.nodes, e.nodeChanged)}, Reconcile: e.reconcile,
	}
}

func (e *evictor) begin(controller.Queue) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.since = map[types.UID]time.Time{}
}

// podChanged asks for a reconcile of a pod whose node has NoExecute taints.
func (e *evictor) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if now == nil {
		e.mu.Lock()
		delete(e.since, old.UID)
		e.mu.Unlock()
		return
	}
	if now.Spec.NodeName == "" {
		return
	}
	if node, found := e.nodes.Indexer().GetByKey(now.Spec.NodeName); found && len(noExecute(node)) > 0 {
		q.Add(now)
	}
}

// nodeChanged asks for reconciles of the pods of a node that is new, or whose taints have changed.
func (e *evictor) nodeChanged(q controller.Queue, old, now *corev1.Node) {
	if now == nil || old != nil && sameTaints(noExecute(old), noExecute(now)) {
		return
	}
	pods, err := e.pods.Indexer().ByIndex(nodeIndex, now.Name)
	if err != nil {
		e.logger.Error("finding the pods of a node", "node", now.Name, "err", err)
		return
	}
	for _, pod := range pods {
		q.Add(pod)
	}
}

// reconcile deletes a pod that does not, or no longer, tolerate its node's NoExecute taints.
func (e *evictor) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	pod, found := e.pods.Get(key)
	if !found || pod.Spec.NodeName == "" {
		return reconcile.Result{}, nil
	}
	node, found := e.nodes.Indexer().GetByKey(pod.Spec.NodeName)
	if !found || pod.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	taints := noExecute(node)
	now := time.Now()
	leaves, at := departure(pod.Spec.Tolerations, taints, e.seenSince(pod, len(taints) > 0, now))
	switch {
	case !leaves:
		return reconcile.Result{}, nil
	case at.After(now):
		return reconcile.Result{RequeueAfter: at.Sub(now)}, nil
	default:
		return reconcile.Result{}, e.evict(ctx, pod)
	}
}

// seenSince returns since when a pod's node has been seen with NoExecute taints. It stands in for
// taints that do not say when they were added.
func (e *evictor) seenSince(pod *corev1.Pod, tainted bool, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !tainted {
		delete(e.since, pod.UID)
		return now
	}
	if _, known := e.since[pod.UID]; !known {
		e.since[pod.UID] = now
	}
	return e.since[pod.UID]
}

// departure reports whether a pod must leave a node with these NoExecute taints, and when. The pod
// leaves at once if it does not tolerate one of them, else when its first toleration ends.
func departure(tolerations []corev1.Toleration, taints []corev1.Taint, since time.Time) (leaves bool, at time.Time) {
	for i := range taints {
		added := since
		if taints[i].TimeAdded != nil {
			added = taints[i].TimeAdded.Time
		}
		tolerated, seconds := false, (*int64)(nil)
		for j := range tolerations {
			if tolerations[j].ToleratesTaint(logr.Discard(), &taints[i], false) {
				tolerated, seconds = true, tolerations[j].TolerationSeconds
				break
			}
		}
		ends := added
		switch {
		case tolerated && seconds == nil:
			continue
		case tolerated:
			ends = added.Add(time.Duration(max(*seconds, 0)) * time.Second)
		}
		if !leaves || ends.Before(at) {
			leaves, at = true, ends
		}
	}
	return leaves, at
}

func (e *evictor) evict(ctx context.Context, shared *corev1.Pod) error {
	pod := shared.DeepCopy()
	e.events.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s", pod.Namespace, pod.Name)
	if current := podstate.Condition(pod, corev1.DisruptionTarget); current == nil || current.Status != corev1.ConditionTrue {
		podstate.SetCondition(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
			Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.Now(),
		})
		if _, err := e.pods.Client.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("marking pod %s/%s as about to be deleted: %w", pod.Namespace, pod.Name, err)
		}
	}
	err := e.pods.Client.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s/%s because of its node's taints: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
