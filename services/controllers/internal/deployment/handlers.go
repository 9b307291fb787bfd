package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
)

func (r *run) deploymentHandler(enqueue func(string)) informer.ResourceEventHandler[*appsv1.Deployment] {
	return reconcile.EnqueueObject[*appsv1.Deployment](enqueue)
}

func (r *run) setHandler(enqueue func(string)) informer.ResourceEventHandler[*appsv1.ReplicaSet] {
	return informer.ResourceEventHandlerFuncs[*appsv1.ReplicaSet]{
		AddFunc: func(rs *appsv1.ReplicaSet, _ bool) {
			if metav1.GetControllerOfNoCopy(rs) == nil && rs.DeletionTimestamp == nil {
				r.enqueueAdopters(rs, enqueue)
				return
			}
			r.enqueueController(rs, enqueue)
		},
		UpdateFunc: func(old, rs *appsv1.ReplicaSet) { r.setUpdated(old, rs, enqueue) },
		DeleteFunc: func(gone informer.DeletedObject[*appsv1.ReplicaSet]) {
			if gone.OptionalObj != nil {
				r.enqueueController(gone.OptionalObj, enqueue)
			}
		},
	}
}

func (r *run) setUpdated(old, rs *appsv1.ReplicaSet, enqueue func(string)) {
	if old.ResourceVersion == rs.ResourceVersion {
		return
	}
	before, after := metav1.GetControllerOfNoCopy(old), metav1.GetControllerOfNoCopy(rs)
	changedOwner := !equality.Semantic.DeepEqual(before, after)
	if changedOwner {
		r.enqueueController(old, enqueue)
	}
	if after != nil {
		r.enqueueController(rs, enqueue)
		return
	}
	if changedOwner || !equality.Semantic.DeepEqual(old.Labels, rs.Labels) {
		r.enqueueAdopters(rs, enqueue)
	}
}

// podHandler enqueues a Deployment that recreates when one of its pods is deleted, so that it
// notices the last.
func (r *run) podHandler() informer.ResourceEventHandler[*corev1.Pod] {
	return informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Pod]) {
			if gone.OptionalObj == nil {
				return
			}
			ref := metav1.GetControllerOfNoCopy(gone.OptionalObj)
			if ref == nil || ref.Kind != r.setClient.Kind().Kind {
				return
			}
			rs, found := r.replicaSets.Indexer().GetByKey(informer.KeyOf(gone.OptionalObj.Namespace, ref.Name))
			if !found || rs.UID != ref.UID {
				return
			}
			if d := r.controllerOf(rs); d != nil && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
				r.queue.Enqueue(informer.Key(d))
			}
		},
	}
}

func (r *run) enqueueController(rs *appsv1.ReplicaSet, enqueue func(string)) {
	if d := r.controllerOf(rs); d != nil {
		enqueue(informer.Key(d))
	}
}

// controllerOf returns the Deployment that controls a ReplicaSet. It returns nil if there is none,
// or if another Deployment has taken its name.
func (r *run) controllerOf(rs *appsv1.ReplicaSet) *appsv1.Deployment {
	ref := metav1.GetControllerOfNoCopy(rs)
	if ref == nil || ref.Kind != r.deploymentClient.Kind().Kind {
		return nil
	}
	d, found := r.deployments.Indexer().GetByKey(informer.KeyOf(rs.Namespace, ref.Name))
	if !found || d.UID != ref.UID {
		return nil
	}
	return d
}

// enqueueAdopters enqueues every Deployment that could adopt a ReplicaSet.
func (r *run) enqueueAdopters(rs *appsv1.ReplicaSet, enqueue func(string)) {
	if len(rs.Labels) == 0 {
		return
	}
	deployments, err := r.deployments.Indexer().ByIndex(informer.NamespaceIndex, rs.Namespace)
	if err != nil {
		r.cfg.Logger.Error("finding the Deployments that could adopt a ReplicaSet",
			"namespace", rs.Namespace, "name", rs.Name, "err", err)
		return
	}
	for _, d := range deployments {
		selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err != nil || selector.Empty() {
			continue // An empty selector must not claim every ReplicaSet.
		}
		if selector.Matches(labels.Set(rs.Labels)) {
			enqueue(informer.Key(d))
		}
	}
}
