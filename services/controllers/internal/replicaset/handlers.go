package replicaset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

func (r *run) setHandler(enqueue func(string)) informer.ResourceEventHandler[*appsv1.ReplicaSet] {
	return informer.ResourceEventHandlerFuncs[*appsv1.ReplicaSet]{
		AddFunc: func(rs *appsv1.ReplicaSet, _ bool) { enqueue(informer.Key(rs)) },
		UpdateFunc: func(_, rs *appsv1.ReplicaSet) {
			enqueue(informer.Key(rs))
		},
		DeleteFunc: func(gone informer.DeletedObject[*appsv1.ReplicaSet]) {
			// A new ReplicaSet of the same name starts without expectations.
			r.expectations.Delete(gone.Key)
			enqueue(gone.Key)
		},
	}
}

func (r *run) podHandler(enqueue func(string)) informer.ResourceEventHandler[*corev1.Pod] {
	return informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc:    func(pod *corev1.Pod, _ bool) { r.podAdded(pod, enqueue) },
		UpdateFunc: func(old, pod *corev1.Pod) { r.podUpdated(old, pod, enqueue) },
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Pod]) {
			if gone.OptionalObj != nil {
				r.podGone(gone.OptionalObj, enqueue)
			}
		},
	}
}

func (r *run) podAdded(pod *corev1.Pod, enqueue func(string)) {
	if pod.DeletionTimestamp != nil {
		// After a restart a pod may first be seen when it is already being deleted.
		r.podGone(pod, enqueue)
		return
	}
	if rs := r.controllerOf(pod); rs != nil {
		key := informer.Key(rs)
		r.expectations.CreationObserved(key)
		enqueue(key)
		return
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		r.enqueueAdopters(pod, enqueue)
	}
}

func (r *run) podUpdated(old, pod *corev1.Pod, enqueue func(string)) {
	if old.ResourceVersion == pod.ResourceVersion {
		return
	}
	relabelled := !equality.Semantic.DeepEqual(old.Labels, pod.Labels)
	if pod.DeletionTimestamp != nil {
		// A graceful deletion counts from its first moment: the replacement need not wait until the
		// node has ended the pod.
		r.podGone(pod, enqueue)
		if relabelled {
			r.podGone(old, enqueue)
		}
		return
	}
	before, after := metav1.GetControllerOfNoCopy(old), metav1.GetControllerOfNoCopy(pod)
	changedOwner := !equality.Semantic.DeepEqual(before, after)
	if changedOwner && before != nil {
		if rs := r.controllerOf(old); rs != nil {
			enqueue(informer.Key(rs))
		}
	}
	if after == nil {
		if relabelled || changedOwner {
			r.enqueueAdopters(pod, enqueue)
		}
		return
	}
	rs := r.controllerOf(pod)
	if rs == nil {
		return
	}
	enqueue(informer.Key(rs))
	if rs.Spec.MinReadySeconds > 0 && !podstate.Ready(old) && podstate.Ready(pod) {
		// The node's clock, which set the transition time, may be ahead: allow one second more.
		r.queue.EnqueueAfter(informer.Key(rs), time.Duration(rs.Spec.MinReadySeconds)*time.Second+time.Second)
	}
}

func (r *run) podGone(pod *corev1.Pod, enqueue func(string)) {
	if rs := r.controllerOf(pod); rs != nil {
		key := informer.Key(rs)
		r.expectations.DeletionObserved(key, string(pod.UID))
		enqueue(key)
	}
}

// controllerOf returns the ReplicaSet that controls a pod. It returns nil if there is none, or if
// another ReplicaSet has taken its name.
func (r *run) controllerOf(pod *corev1.Pod) *appsv1.ReplicaSet {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != r.sets.Kind().Kind {
		return nil
	}
	rs, found := r.replicaSets.Indexer().GetByKey(informer.KeyOf(pod.Namespace, ref.Name))
	if !found || rs.UID != ref.UID {
		return nil
	}
	return rs
}

// enqueueAdopters enqueues every ReplicaSet that could adopt a pod.
func (r *run) enqueueAdopters(pod *corev1.Pod, enqueue func(string)) {
	if len(pod.Labels) == 0 {
		return
	}
	sets, err := r.replicaSets.Indexer().ByIndex(informer.NamespaceIndex, pod.Namespace)
	if err != nil {
		r.cfg.Logger.Error("finding the ReplicaSets that could adopt a pod", "namespace", pod.Namespace, "name", pod.Name, "err", err)
		return
	}
	for _, rs := range sets {
		selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
		if err != nil || selector.Empty() {
			continue // An empty selector must not claim every pod.
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			enqueue(informer.Key(rs))
		}
	}
}
