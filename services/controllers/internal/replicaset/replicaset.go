// Package replicaset keeps as many pods running as each ReplicaSet asks for, as Kubernetes'
// ReplicaSet controller does (kubernetes, pkg/controller/replicaset).
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
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podcontrol"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

const (
	name    = "replicaset-controller"
	workers = 5
	// burst bounds the pods created or deleted in one reconcile (Kubernetes, BurstReplicas).
	burst = 500
)

// reconciler reconciles ReplicaSets.
type reconciler struct {
	sets    *controller.Objects[*appsv1.ReplicaSet]
	pods    *controller.Owned[*corev1.Pod, *appsv1.ReplicaSet]
	control podcontrol.Control
}

// New declares the ReplicaSet controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{sets: controller.For[*appsv1.ReplicaSet](d)}
	r.pods = controller.OwnedBy[*corev1.Pod](d, r.sets)
	r.pods.Selects = func(rs *appsv1.ReplicaSet) (labels.Selector, error) {
		return metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	}
	r.control = podcontrol.Control{Pods: r.pods.Client, Kind: r.sets.Client.Kind().GroupVersionKind, Events: d.Events(name)}
	return &controller.Spec{
		Name: name, Resource: "replicasets", Workers: workers, Events: r.control.Events,
		For: r.sets, Watches: []controller.Watch{r.pods}, Reconcile: r.reconcile,
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	shared, found := r.sets.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	rs := shared.DeepCopy()
	if _, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector); err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("reading the selector of ReplicaSet %s: %w", key, err))
	}
	active, terminating, err := r.claim(ctx, rs)
	if err != nil {
		return reconcile.Result{}, err
	}
	var manageErr error
	if rs.DeletionTimestamp == nil {
		manageErr = r.manage(ctx, rs, active)
	}
	status, wait := newStatus(rs, active, terminating, manageErr, time.Now())
	if err := r.updateStatus(ctx, rs, status); err != nil {
		return reconcile.Result{}, err
	}
	if manageErr != nil {
		return reconcile.Result{}, fmt.Errorf("managing the pods of ReplicaSet %s: %w", key, manageErr)
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// claim returns the active and the terminating pods of a ReplicaSet, after adopting and releasing
// as needed.
func (r *reconciler) claim(ctx context.Context, rs *appsv1.ReplicaSet) (active, terminating []*corev1.Pod, err error) {
	candidates, err := r.pods.Of(rs)
	if err != nil {
		return nil, nil, err
	}
	var living []*corev1.Pod
	for _, pod := range candidates {
		switch {
		case podstate.Active(pod):
			living = append(living, pod)
		case podstate.Terminating(pod) && metav1.IsControlledBy(pod, rs):
			terminating = append(terminating, pod)
		}
	}
	active, err = r.pods.Claim(ctx, rs, living)
	return active, terminating, err
}

// updateStatus writes a status that differs from the current one.
func (r *reconciler) updateStatus(ctx context.Context, rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if sameStatus(rs.Status, status) && rs.Generation == rs.Status.ObservedGeneration {
		return nil
	}
	status.ObservedGeneration = rs.Generation
	rs.Status = status
	_, err := r.sets.Client.UpdateStatus(ctx, rs, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of ReplicaSet %s/%s: %w", rs.Namespace, rs.Name, err)
	}
	return nil
}
