// Package volumeexpand tells, for claims that ask for more than their volume has, who is expected to expand
// the volume (kubernetes, pkg/controller/volume/expand). It expands nothing itself: that is the work of the
// external resizer of the volume's CSI driver.
//
// A volume of an in-tree plugin belongs to the CSI driver that took the plugin's place. Its claim gets the
// annotation by which that driver's resizer finds it.
package volumeexpand

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	csitranslation "k8s.io/csi-translation-lib"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "persistentvolume-expander-controller"
	// queue is Kubernetes' name of the queue, and of the source of Events.
	queue   = "volume_expand"
	workers = 10
	// resizer is the annotation of a claim that names the driver whose resizer expands its volume.
	resizer = "volume.kubernetes.io/storage-resizer"
	// before is the annotation of a volume that has grown, but not yet its file system.
	before = "volume.alpha.kubernetes.io/pre-resize-capacity"
	// expanding is the reason of the Events.
	expanding = "ExternalExpanding"
)

type (
	claim = *corev1.PersistentVolumeClaim
	pv    = *corev1.PersistentVolume
)

type reconciler struct {
	claims  *controller.Objects[claim]
	volumes informer.SharedInformer[pv]
	events  *events.Recorder
}

// New declares the controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{claims: controller.For[claim](d), volumes: informer.For[pv](d.Informers), events: d.Events(queue)}
	r.claims.Wanted = func(c claim) bool { return c.Status.Phase == corev1.ClaimBound }
	r.claims.Changed = func(old, now claim) bool {
		return storage(now.Spec.Resources.Requests).Cmp(*storage(old.Spec.Resources.Requests)) > 0 ||
			storage(now.Status.Capacity).Cmp(*storage(old.Status.Capacity)) > 0
	}
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "persistentvolumeclaims", Workers: workers, Events: r.events,
		For: r.claims, Watches: []controller.Watch{controller.On(r.volumes, r.volumeChanged)}, Reconcile: r.reconcile,
	}
}

// volumeChanged asks for the reconcile of a bound claim whose volume the cache did not have.
func (r *reconciler) volumeChanged(q controller.Queue, old, now pv) {
	if now == nil || now.Spec.ClaimRef == nil || old != nil && old.Spec.ClaimRef != nil && old.Spec.ClaimRef.UID == now.Spec.ClaimRef.UID {
		return
	}
	ref := now.Spec.ClaimRef
	if c, found := r.claims.Indexer().GetByKey(informer.KeyOf(ref.Namespace, ref.Name)); found && r.claims.Wanted(c) {
		q.Add(c)
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	c, found := r.claims.Get(key)
	if !found || !r.claims.Wanted(c) {
		return reconcile.Result{}, nil
	}
	volume, found := r.volumes.Indexer().GetByKey(c.Spec.VolumeName)
	if !found || !boundTo(volume, c) {
		return reconcile.Result{}, nil
	}
	if storage(c.Spec.Resources.Requests).Cmp(*storage(c.Status.Capacity)) <= 0 && !metav1.HasAnnotation(volume.ObjectMeta, before) {
		return reconcile.Result{}, nil
	}
	translator := csitranslation.New()
	plugin, err := translator.GetInTreePluginNameFromSpec(volume, nil)
	if err != nil { // The volume is of no plugin that a driver replaces.
		r.events.Event(c, corev1.EventTypeNormal, expanding, "waiting for an external controller to expand this PVC")
		return reconcile.Result{}, nil
	}
	r.events.Event(c, corev1.EventTypeNormal, expanding, "CSI migration enabled for %s; waiting for external resizer to expand the pvc", plugin)
	driver, err := translator.GetCSINameFromInTreeName(plugin)
	if err != nil {
		return reconcile.Result{}, r.report(c, fmt.Errorf("error getting CSI driver name for pvc %s, with error %w", key, err))
	}
	if err := r.setResizer(ctx, c, driver); err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, r.report(c, fmt.Errorf("error setting resizer annotation to pvc %s, with error %w", key, err))
	}
	return reconcile.Result{}, nil
}

// report records an error as an Event too, except a conflict, after which the claim is tried again at once.
func (r *reconciler) report(c claim, err error) error {
	if !apierrors.IsConflict(err) {
		r.events.Event(c, corev1.EventTypeWarning, expanding, "%s", err.Error())
	}
	return err
}

// setResizer annotates a claim with the driver that expands its volume.
func (r *reconciler) setResizer(ctx context.Context, c claim, driver string) error {
	if c.Annotations[resizer] == driver {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{resizer: driver}, "resourceVersion": c.ResourceVersion,
	}})
	if err != nil {
		return fmt.Errorf("encoding the annotation: %w", err)
	}
	_, err = r.claims.Client.Patch(ctx, c.Namespace, c.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patchPVCStatus failed to patch PVC %q: %w", c.Name, err)
	}
	return nil
}

// boundTo reports whether a volume names a claim.
func boundTo(volume pv, c claim) bool {
	ref := volume.Spec.ClaimRef
	return ref != nil && ref.Namespace == c.Namespace && ref.UID == c.UID
}

func storage(of corev1.ResourceList) *resource.Quantity { return of.Storage() }
