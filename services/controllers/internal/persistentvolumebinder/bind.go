package persistentvolumebinder

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/quantity"
)

// preResize is the annotation of a volume that has grown before its file system.
const preResize = "volume.alpha.kubernetes.io/pre-resize-capacity"

// bind completes the binding of a claim and a volume: it makes those of the four writes that are missing.
// The volume comes first: once it has the claim's UID, no other claim gets it.
func (b *binder) bind(ctx context.Context, v pv, c claim) error {
	next, changed, err := volume.GetBindVolumeToClaim(v, c)
	if err != nil {
		return fmt.Errorf("binding volume %s to claim %q: %w", v.Name, key(c), err)
	}
	if changed {
		if v, err = b.volumes.Client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("binding volume %s to claim %q: %w", next.Name, key(c), err)
		}
	}
	if v, err = b.setPhase(ctx, v, corev1.VolumeBound); err != nil {
		return err
	}
	if c, err = b.bindClaim(ctx, c, v); err != nil {
		return err
	}
	return b.setClaim(ctx, c, corev1.ClaimBound, v)
}

// bindClaim writes the name of a volume into its claim, unless it is there.
func (b *binder) bindClaim(ctx context.Context, c claim, v pv) (claim, error) {
	named, completed := c.Spec.VolumeName == v.Name, metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted)
	if named && completed {
		return c, nil
	}
	next := c.DeepCopy()
	if !named {
		next.Spec.VolumeName = v.Name
		if !metav1.HasAnnotation(next.ObjectMeta, volume.AnnBoundByController) {
			metav1.SetMetaDataAnnotation(&next.ObjectMeta, volume.AnnBoundByController, "yes")
		}
	}
	if !completed {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, volume.AnnBindCompleted, "yes")
	}
	written, err := b.claims.Client.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("binding claim %q to volume %s: %w", key(c), v.Name, err)
	}
	return written, nil
}

// setClaim writes the status of a claim if it differs. The status tells of v; if v is nil, of no volume.
func (b *binder) setClaim(ctx context.Context, c claim, phase corev1.PersistentVolumeClaimPhase, v pv) error {
	next := c.DeepCopy()
	next.Status.Phase = phase
	changed := c.Status.Phase != phase
	if v == nil {
		changed = changed || c.Status.AccessModes != nil || c.Status.Capacity != nil || c.Status.CurrentVolumeAttributesClassName != nil
		next.Status.AccessModes, next.Status.Capacity, next.Status.CurrentVolumeAttributesClassName = nil, nil, nil
	} else {
		if !slices.Equal(c.Status.AccessModes, v.Spec.AccessModes) {
			next.Status.AccessModes, changed = slices.Clone(v.Spec.AccessModes), true
		}
		// A bound claim's capacity may differ while its file system grows.
		if c.Status.Phase != phase {
			if err := setCapacity(next, v); err != nil {
				return err
			}
		}
		if c.Status.Phase == corev1.ClaimPending && phase == corev1.ClaimBound {
			next.Status.CurrentVolumeAttributesClassName = v.Spec.VolumeAttributesClassName
		}
	}
	if !changed {
		return nil
	}
	if _, err := b.claims.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the status of claim %q: %w", key(c), err)
	}
	return nil
}

// setCapacity gives a claim the capacity of its volume, or of the volume's file system if that is smaller.
func setCapacity(c claim, v pv) error {
	has, ok := v.Spec.Capacity[corev1.ResourceStorage]
	if !ok {
		return fmt.Errorf("PersistentVolume %q is without a storage capacity", v.Name)
	}
	if text, ok := v.Annotations[preResize]; ok {
		if size, err := quantity.Parse(text); err == nil {
			has = size
		}
		if c.Status.Capacity == nil {
			c.Status.Capacity = corev1.ResourceList{}
		}
		c.Status.Capacity[corev1.ResourceStorage] = has
		return nil
	}
	if was, ok := c.Status.Capacity[corev1.ResourceStorage]; !ok || was.Cmp(has) != 0 {
		c.Status.Capacity = v.Spec.Capacity.DeepCopy()
	}
	return nil
}
