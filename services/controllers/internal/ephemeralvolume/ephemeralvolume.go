// Package ephemeralvolume creates the claims of pods' ephemeral volumes (kubernetes,
// pkg/controller/volume/ephemeral). The pods own the claims, which go with them.
package ephemeralvolume

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/controllerref"
	"github.com/garboard/garboard/services/controllers/internal/podclaims"
)

const (
	name      = "ephemeral-volume-controller"
	queue     = "ephemeral_volume"
	component = "ephemeral_volume"
	workers   = 5
)

type reconciler struct {
	pods   *controller.Objects[*corev1.Pod]
	claims *controller.Objects[*corev1.PersistentVolumeClaim]
	events *events.Recorder
	// attempts and failures count creations.
	attempts, failures prometheus.Counter
}

// New declares the controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		pods: controller.For[*corev1.Pod](d), claims: controller.For[*corev1.PersistentVolumeClaim](d), events: d.Events(component),
		attempts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ephemeral_volume_controller_create_total", Help: "Number of attempts to create a claim for an ephemeral volume",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "ephemeral_volume_controller_create_failures_total", Help: "Number of attempts to create a claim for an ephemeral volume that failed",
		}),
	}
	if d.Registerer != nil {
		d.Registerer.MustRegister(r.attempts, r.failures)
	}
	r.pods.Changed = func(_, _ *corev1.Pod) bool { return false } // Volumes never change.
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "pods", Workers: workers, Events: r.events, For: r.pods, Reconcile: r.reconcile,
		Watches: []controller.Watch{podclaims.Index(r.pods.SharedInformer), controller.On(r.claims.SharedInformer, r.claimChanged)},
	}
}

// claimChanged asks for the reconciles of the pods that lack a claim that is gone.
func (r *reconciler) claimChanged(q controller.Queue, old, now *corev1.PersistentVolumeClaim) {
	if now != nil {
		return
	}
	pods, err := podclaims.Users(r.pods.SharedInformer, old)
	if err != nil {
		return // The index is added before the first event.
	}
	for _, pod := range pods {
		q.Add(pod)
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	pod, found := r.pods.Get(key)
	if !found || pod.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Ephemeral == nil {
			continue
		}
		if err := r.provide(ctx, pod, volume); err != nil {
			r.events.Event(pod, corev1.EventTypeWarning, "FailedBinding", "ephemeral volume %s: %v", volume.Name, err)
			return reconcile.Result{}, fmt.Errorf("pod %s, ephemeral volume %s: %w", key, volume.Name, err)
		}
	}
	return reconcile.Result{}, nil
}

// provide creates the claim of an ephemeral volume, unless it exists. A claim of that name that was not
// made for the pod is an error.
func (r *reconciler) provide(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	name := ephemeral.VolumeClaimName(pod, volume)
	if claim, found := r.claims.Indexer().GetByKey(informer.KeyOf(pod.Namespace, name)); found {
		return ephemeral.VolumeIsForPod(pod, claim)
	}
	template := volume.Ephemeral.VolumeClaimTemplate.DeepCopy()
	r.attempts.Inc()
	_, err := r.claims.Client.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: name, Annotations: template.Annotations, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{controllerref.Reference(pod, r.pods.Client.Kind().GroupVersionKind)},
		},
		Spec: template.Spec,
	}, metav1.CreateOptions{})
	if err != nil {
		r.failures.Inc()
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}
