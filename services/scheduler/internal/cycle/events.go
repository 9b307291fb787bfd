package cycle

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// podHandler routes pods: pods on nodes to the cache, and pods that wait for this scheduler to the
// queue.
func (r *run) podHandler() informer.ResourceEventHandler[*corev1.Pod] {
	return informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc: func(pod *corev1.Pod, _ bool) { r.podChanged(nil, pod) },
		UpdateFunc: func(old, pod *corev1.Pod) {
			if old.ResourceVersion != pod.ResourceVersion {
				r.podChanged(old, pod)
			}
		},
		DeleteFunc: func(deleted informer.DeletedObject[*corev1.Pod]) {
			if deleted.OptionalObj != nil {
				r.podGone(deleted.OptionalObj)
			}
		},
	}
}

func (r *run) podChanged(old, pod *corev1.Pod) {
	if pod.Spec.NodeName != "" {
		r.queue.Delete(pod.UID)
		room := old != nil && old.Spec.NodeName != "" && !clusterview.Finished(old) && clusterview.Finished(pod)
		r.cache.SetPod(pod)
		switch {
		case room:
			r.queue.Move(afterRemoval...)
		case old == nil || old.Spec.NodeName == "" || !equality.Semantic.DeepEqual(old.Labels, pod.Labels) ||
			(old.DeletionTimestamp == nil) != (pod.DeletionTimestamp == nil):
			r.queue.Move(placement.InterPodAffinity, placement.PodTopologySpread)
		case !equality.Semantic.DeepEqual(old.Spec, pod.Spec), !maps.Equal(clusterview.Requests(old), clusterview.Requests(pod)):
			r.queue.Move(placement.NodeResourcesFit)
		}
		return
	}
	if old != nil && old.Spec.NodeName != "" {
		r.podGone(old) // A bound pod loses its node only if etcd is restored to a time before the binding.
	}
	if !r.mine(pod) {
		r.queue.Delete(pod.UID)
		return
	}
	changed := old == nil || !equality.Semantic.DeepEqual(old.Spec, pod.Spec) || !equality.Semantic.DeepEqual(old.Labels, pod.Labels)
	r.queue.Set(pod, changed)
}

// mine reports whether a pod without a node waits for this scheduler.
func (r *run) mine(pod *corev1.Pod) bool {
	name := pod.Spec.SchedulerName
	if name == "" {
		name = corev1.DefaultSchedulerName
	}
	return name == r.cfg.SchedulerName && pod.DeletionTimestamp == nil && !clusterview.Finished(pod) &&
		len(pod.Spec.SchedulingGates) == 0
}

func (r *run) podGone(pod *corev1.Pod) {
	r.queue.Delete(pod.UID)
	if r.cache.Placed(pod.UID) {
		r.cache.RemovePod(pod.UID)
		r.queue.Move(afterRemoval...)
	}
}

// afterRemoval are the filters that the removal of a pod from a node may satisfy.
var afterRemoval = []placement.Filter{
	placement.NodeResourcesFit, placement.NodePorts, placement.VolumeRestrictions, placement.PodTopologySpread, placement.InterPodAffinity,
}

func (r *run) nodeHandler() informer.ResourceEventHandler[*corev1.Node] {
	return informer.ResourceEventHandlerFuncs[*corev1.Node]{
		AddFunc: func(node *corev1.Node, _ bool) {
			r.cache.SetNode(node)
			r.queue.Move()
		},
		UpdateFunc: func(old, node *corev1.Node) {
			r.cache.SetNode(node)
			// Heartbeats are ignored: only what a filter looks at counts.
			if old.Spec.Unschedulable != node.Spec.Unschedulable || clusterview.Ready(old) != clusterview.Ready(node) ||
				!equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
				!equality.Semantic.DeepEqual(old.Labels, node.Labels) ||
				!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) {
				r.queue.Move()
			}
		},
		DeleteFunc: func(deleted informer.DeletedObject[*corev1.Node]) {
			r.cache.RemoveNode(deleted.Key)
			r.queue.Move(placement.PodTopologySpread)
		},
	}
}

func (r *run) namespaceHandler() informer.ResourceEventHandler[*corev1.Namespace] {
	return informer.ResourceEventHandlerFuncs[*corev1.Namespace]{
		UpdateFunc: func(old, namespace *corev1.Namespace) {
			if !equality.Semantic.DeepEqual(old.Labels, namespace.Labels) {
				r.queue.Move(placement.InterPodAffinity)
			}
		},
	}
}
