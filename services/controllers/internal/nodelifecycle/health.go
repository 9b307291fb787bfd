package nodelifecycle

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// heard is what was last heard from a node. Its times come from this process's clock: a node's
// clock may be wrong, but any change in what it reports means that it is alive.
type heard struct {
	at        time.Time
	heartbeat metav1.Time
	renewal   metav1.MicroTime
	ready     corev1.ConditionStatus // as of the last reconcile
}

// noteLease records a renewal of a node's Lease, and reports whether the node was considered
// silent.
func (r *reconciler) noteLease(lease *coordinationv1.Lease, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, known := r.heard[lease.Name]
	if !known || lease.Spec.RenewTime == nil || h.renewal.Equal(lease.Spec.RenewTime) {
		return false
	}
	h.renewal, h.at = *lease.Spec.RenewTime, now
	r.heard[lease.Name] = h
	return h.ready == corev1.ConditionUnknown
}

// note records what the caches show of a node. before is the Ready status recorded previously;
// first reports whether the node is seen for the first time.
func (r *reconciler) note(node *corev1.Node, now time.Time) (at time.Time, before corev1.ConditionStatus, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, known := r.heard[node.Name]
	if !known {
		h.at = now
	}
	before = h.ready
	if ready := condition(node, corev1.NodeReady); ready != nil {
		if !h.heartbeat.Equal(&ready.LastHeartbeatTime) {
			h.heartbeat, h.at = ready.LastHeartbeatTime, now
		}
		h.ready = ready.Status
	}
	lease, found := r.leases.Indexer().GetByKey(informer.KeyOf(corev1.NamespaceNodeLease, node.Name))
	if found && lease.Spec.RenewTime != nil && !h.renewal.Equal(lease.Spec.RenewTime) {
		h.renewal, h.at = *lease.Spec.RenewTime, now
	}
	r.heard[node.Name] = h
	return h.at, before, !known
}

func (r *reconciler) setReady(node string, status corev1.ConditionStatus) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.heard[node]
	h.ready = status
	r.heard[node] = h
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	shared, found := r.nodes.Get(key)
	if !found {
		r.forget(key.Name)
		return reconcile.Result{}, nil
	}
	now := time.Now()
	at, before, first := r.note(shared, now)
	if first {
		r.events.Event(shared, corev1.EventTypeNormal, "RegisteredNode",
			"Node %s event: Registered Node %s in Controller", shared.Name, shared.Name)
	}
	grace := r.options.MonitorGrace
	if condition(shared, corev1.NodeReady) == nil {
		grace = r.options.StartupGrace
	}
	node := shared.DeepCopy()
	var result reconcile.Result
	if silent := now.Sub(at); silent < grace {
		result.RequeueAfter = grace - silent
	} else if markSilent(node, now) {
		updated, err := r.nodes.Client.UpdateStatus(ctx, node, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, nil
		}
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("writing the status of silent node %s: %w", key, err)
		}
		node = updated
		r.logger.Warn("node has fallen silent", "node", key.Name, "since", at)
	}
	status := readyStatus(node)
	r.setReady(key.Name, status)
	if before == corev1.ConditionTrue && status != corev1.ConditionTrue {
		r.events.Event(node, corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: %s", node.Name, "NodeNotReady")
	}
	// A node that reports sets its pods' readiness itself; for such a node only the transition
	// counts.
	if status == corev1.ConditionUnknown && condition(node, corev1.NodeReady) != nil ||
		before == corev1.ConditionTrue && status != corev1.ConditionTrue {
		if err := r.markPodsNotReady(ctx, node.Name); err != nil {
			r.setReady(key.Name, before)
			return reconcile.Result{}, err
		}
	}
	if r.zones.set(node, status == corev1.ConditionTrue) {
		r.addOthers(key.Name)
	}
	wait, err := r.taint(ctx, node, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	if wait > 0 && (result.RequeueAfter == 0 || wait < result.RequeueAfter) {
		result.RequeueAfter = wait
	}
	return result, nil
}

func (r *reconciler) forget(node string) {
	r.mu.Lock()
	_, known := r.heard[node]
	delete(r.heard, node)
	r.mu.Unlock()
	if !known {
		return
	}
	r.events.EventAbout(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node}, nil, corev1.EventTypeNormal,
		"RemovingNode", "Node %s event: Removing Node %s from Controller", node, node)
	if r.zones.remove(node) {
		r.addOthers(node)
	}
}

// silentConditions returns the conditions that become Unknown when a node falls silent.
func silentConditions() []corev1.NodeConditionType {
	return []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	}
}

// markSilent sets the conditions that are no longer known to Unknown, and reports whether that
// changed anything.
func markSilent(node *corev1.Node, now time.Time) bool {
	changed := false
	for _, kind := range silentConditions() {
		current := condition(node, kind)
		switch {
		case current == nil:
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message:           "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: metav1.NewTime(now),
			})
		case current.Status != corev1.ConditionUnknown:
			current.Status, current.Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
			current.Message = "Kubelet stopped posting node status."
			current.LastTransitionTime = metav1.NewTime(now)
		default:
			continue
		}
		changed = true
	}
	return changed
}

// markPodsNotReady takes the pods of a node out of service.
func (r *reconciler) markPodsNotReady(ctx context.Context, node string) error {
	pods, err := r.pods.Indexer().ByIndex(nodeIndex, node)
	if err != nil {
		return fmt.Errorf("finding the pods of node %s: %w", node, err)
	}
	for _, pod := range pods {
		if !podstate.Ready(pod) {
			continue
		}
		patch, err := podstate.ConditionPatch(pod, pod.ResourceVersion, map[string]any{
			"type": corev1.PodReady, "status": corev1.ConditionFalse, "lastTransitionTime": metav1.Now(),
		})
		if err != nil {
			return err
		}
		_, err = r.client.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("marking pod %s/%s of node %s as not ready: %w", pod.Namespace, pod.Name, node, err)
		}
		r.events.Event(pod, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	return nil
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == kind {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// readyStatus returns the status of a node's Ready condition; Unknown while it has none.
func readyStatus(node *corev1.Node) corev1.ConditionStatus {
	if ready := condition(node, corev1.NodeReady); ready != nil {
		return ready.Status
	}
	return corev1.ConditionUnknown
}

func isReady(node *corev1.Node) bool { return readyStatus(node) == corev1.ConditionTrue }
