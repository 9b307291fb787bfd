// Package replicaset keeps as many pods running as each ReplicaSet, and each ReplicationController, asks
// for, as Kubernetes' controllers of these kinds do (kubernetes, pkg/controller/replicaset and replication).
package replicaset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podcontrol"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

const (
	workers = 5
	// burst bounds the pods created or deleted in one reconcile (Kubernetes, BurstReplicas).
	burst = 500
)

// reconciler reconciles ReplicaSets, or other objects by the view of them as ReplicaSets.
type reconciler[T scheme.Object] struct {
	adapter[T]
	sets    *controller.Objects[T]
	pods    *controller.Owned[*corev1.Pod, T]
	control *podcontrol.Control
}

// adapter is what distinguishes the kinds of sets of pods.
type adapter[T scheme.Object] struct {
	// name is that of the controller, queue that of its queue in metrics, and component the source of
	// its Events.
	name, queue, component string
	clone                  func(obj T) T
	// view returns an object as a ReplicaSet with which it shares memory.
	view func(obj T) *appsv1.ReplicaSet
	// report sets an object's status.
	report func(obj T, status appsv1.ReplicaSetStatus)
	// terminating means that the status counts the pods that are being deleted.
	terminating bool
}

// New declares the ReplicaSet controller.
func New(d controller.Deps) *controller.Spec {
	return declare(d, adapter[*appsv1.ReplicaSet]{
		name: "replicaset-controller", component: "replicaset-controller", terminating: true,
		clone:  (*appsv1.ReplicaSet).DeepCopy,
		view:   func(rs *appsv1.ReplicaSet) *appsv1.ReplicaSet { return rs },
		report: func(rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) { rs.Status = status },
	})
}

// declare declares the controller of a kind of sets of pods.
func declare[T scheme.Object](d controller.Deps, a adapter[T]) *controller.Spec {
	r := &reconciler[T]{adapter: a, sets: controller.For[T](d)}
	r.pods = controller.OwnedBy[*corev1.Pod](d, r.sets)
	r.pods.Selects = func(obj T) (labels.Selector, error) {
		return metav1.LabelSelectorAsSelector(a.view(obj).Spec.Selector)
	}
	kind := r.sets.Client.Kind()
	r.control = &podcontrol.Control{Pods: r.pods.Client, Kind: kind.GroupVersionKind, Events: d.Events(a.component)}
	return &controller.Spec{
		Name: a.name, Queue: a.queue, Resource: kind.Resource, Workers: workers, Events: r.control.Events,
		For: r.sets, Watches: []controller.Watch{r.pods}, Reconcile: r.reconcile,
	}
}

func (r *reconciler[T]) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	shared, found := r.sets.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	set, kind := r.clone(shared), r.control.Kind.Kind
	if _, err := r.pods.Selects(set); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("reading the selector of %s %s: %w", kind, key, err))
	}
	active, terminating, err := r.claim(ctx, set)
	if err != nil {
		return reconcile.Result{}, err
	}
	var manageErr error
	if set.GetDeletionTimestamp() == nil {
		var acted bool
		if acted, manageErr = r.manage(ctx, set, active); acted && manageErr == nil {
			// The pods just created or deleted bring another reconcile, whose status counts them.
			return reconcile.Result{}, nil
		}
	}
	status, wait := newStatus(r.view(set), active, manageErr, time.Now())
	if r.terminating {
		ending := int32(len(terminating))
		status.TerminatingReplicas = &ending
	}
	if err := r.updateStatus(ctx, set, status); err != nil {
		return reconcile.Result{}, err
	}
	if manageErr != nil {
		return reconcile.Result{}, fmt.Errorf("managing the pods of %s %s: %w", kind, key, manageErr)
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// claim returns the active and the terminating pods of a set, after adopting and releasing
// as needed.
func (r *reconciler[T]) claim(ctx context.Context, set T) (active, terminating []*corev1.Pod, err error) {
	candidates, err := r.pods.Of(set)
	if err != nil {
		return nil, nil, err
	}
	var living []*corev1.Pod
	for _, pod := range candidates {
		switch {
		case podstate.Active(pod):
			living = append(living, pod)
		case podstate.Terminating(pod) && metav1.IsControlledBy(pod, set):
			terminating = append(terminating, pod)
		}
	}
	active, err = r.pods.Claim(ctx, set, living)
	return active, terminating, err
}

// updateStatus writes a status that differs from the current one.
func (r *reconciler[T]) updateStatus(ctx context.Context, set T, status appsv1.ReplicaSetStatus) error {
	current := r.view(set).Status
	if sameStatus(current, status) && set.GetGeneration() == current.ObservedGeneration {
		return nil
	}
	status.ObservedGeneration = set.GetGeneration()
	r.report(set, status)
	_, err := r.sets.Client.UpdateStatus(ctx, set, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of %s %s/%s: %w", r.control.Kind.Kind, set.GetNamespace(), set.GetName(), err)
	}
	return nil
}
