package persistentvolumebinder

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// reconcileVolume brings a volume's phase in line with its claim, and releases it when the claim is gone.
func (b *binder) reconcileVolume(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	v, found := b.volumes.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "" {
		// It is free, or reserved for a claim that is not bound yet.
		_, err := b.setPhase(ctx, v, corev1.VolumeAvailable)
		return reconcile.Result{}, err
	}
	c, err := b.claimOf(ctx, v)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case c == nil:
		return reconcile.Result{}, b.release(ctx, v)
	case c.Spec.VolumeName == "":
		// The reconcile of the claim, which the volume has caused, completes the binding.
		b.warnOfModes(c, v)
		return reconcile.Result{}, nil
	case c.Spec.VolumeName == v.Name:
		_, err := b.setPhase(ctx, v, corev1.VolumeBound)
		return reconcile.Result{}, err
	case metav1.HasAnnotation(v.ObjectMeta, volume.AnnDynamicallyProvisioned) &&
		v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		// It was made for a claim that is bound to another one, so nobody needs it.
		return reconcile.Result{}, b.release(ctx, v)
	}
	return reconcile.Result{}, b.unbind(ctx, v)
}

// claimOf returns the claim to which a volume is bound; nil if it is gone, or if another has taken its
// name. A volume is given up only after the API has been asked: the cache of claims may be behind.
func (b *binder) claimOf(ctx context.Context, v pv) (claim, error) {
	ref := v.Spec.ClaimRef
	c, found := b.claims.Indexer().GetByKey(informer.KeyOf(ref.Namespace, ref.Name))
	if found && c.UID == ref.UID {
		return c, nil
	}
	if !found && (v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed) {
		return nil, nil
	}
	c, err := b.claims.Client.Get(ctx, ref.Namespace, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the claim of volume %s: %w", v.Name, err)
	case c.UID != ref.UID:
		return nil, nil
	}
	return c, nil
}

func (b *binder) warnOfModes(c claim, v pv) {
	if volume.CheckVolumeModeMismatches(&c.Spec, &v.Spec) {
		b.events.Event(v, corev1.EventTypeWarning, "VolumeMismatch",
			"Cannot bind PersistentVolume to requested PersistentVolumeClaim %q due to incompatible volumeMode.", c.Name)
		b.events.Event(c, corev1.EventTypeWarning, "VolumeMismatch",
			"Cannot bind PersistentVolume %q to requested PersistentVolumeClaim due to incompatible volumeMode.", v.Name)
	}
}

// release ends a volume's binding as its reclaim policy says. A failure stays to be seen.
func (b *binder) release(ctx context.Context, v pv) error {
	if v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		released, err := b.setPhase(ctx, v, corev1.VolumeReleased)
		if err != nil {
			return err
		}
		v = released
	}
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimRetain:
		return nil
	case corev1.PersistentVolumeReclaimDelete:
		provisioner := v.Annotations[volume.AnnDynamicallyProvisioned]
		switch {
		case provisioner == "":
			return b.fail(ctx, v, "VolumeFailedDelete", fmt.Sprintf("error getting deleter volume plugin for volume %q: no deletable volume plugin matched", v.Name))
		case strings.HasPrefix(provisioner, "kubernetes.io/"):
			return b.fail(ctx, v, "VolumeFailedDelete", "no volume plugin matched name: "+provisioner)
		}
		return nil // Its provisioner deletes it.
	case corev1.PersistentVolumeReclaimRecycle:
		return b.fail(ctx, v, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
	}
	return b.fail(ctx, v, "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy")
}

func (b *binder) fail(ctx context.Context, v pv, reason, message string) error {
	if v.Status.Phase == corev1.VolumeFailed {
		return nil
	}
	next := v.DeepCopy()
	next.Status.Phase, next.Status.Message = corev1.VolumeFailed, message
	failed, err := b.volumes.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of volume %s: %w", v.Name, err)
	}
	b.events.Event(failed, corev1.EventTypeWarning, reason, "%s", message)
	return nil
}

// unbind frees a volume from a claim that is bound to another one. A reservation by a user stays.
func (b *binder) unbind(ctx context.Context, v pv) error {
	next := v.DeepCopy()
	if metav1.HasAnnotation(v.ObjectMeta, volume.AnnBoundByController) {
		next.Spec.ClaimRef = nil
		delete(next.Annotations, volume.AnnBoundByController)
	} else {
		next.Spec.ClaimRef.UID = ""
	}
	freed, err := b.volumes.Client.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("freeing volume %s: %w", v.Name, err)
	}
	_, err = b.setPhase(ctx, freed, corev1.VolumeAvailable)
	return err
}

// setPhase writes the phase of a volume if it differs, and returns the volume.
func (b *binder) setPhase(ctx context.Context, v pv, phase corev1.PersistentVolumePhase) (pv, error) {
	if v.Status.Phase == phase {
		return v, nil
	}
	next := v.DeepCopy()
	next.Status.Phase, next.Status.Message = phase, ""
	written, err := b.volumes.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("writing the status of volume %s: %w", v.Name, err)
	}
	return written, nil
}
