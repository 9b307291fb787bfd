package localpath

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// reconcileVolume deletes a volume that is released, and lets it go when its node has removed the folder.
func (p *provisioner) reconcileVolume(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	v, found := p.volumes.Get(key)
	if !found || !localvolume.Provisioned(v) {
		return reconcile.Result{}, nil
	}
	err := p.follow(ctx, v)
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// follow takes the next step of a volume's life.
func (p *provisioner) follow(ctx context.Context, v pv) error {
	reclaimed := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	held := slices.Contains(v.Finalizers, localvolume.Finalizer)
	switch {
	case !reclaimed && held:
		// A retained volume keeps its folder, whatever happens to the object.
		return p.release(ctx, v)
	case !reclaimed:
		return nil
	case v.DeletionTimestamp == nil && !held:
		return p.hold(ctx, v)
	case v.DeletionTimestamp == nil && v.Status.Phase == corev1.VolumeReleased:
		return p.remove(ctx, v)
	case localvolume.Removable(v):
		gone, err := p.folderGone(ctx, v)
		if err != nil || !gone {
			return err // A change of the node asks for a reconcile.
		}
		if err := p.release(ctx, v); err != nil {
			return err
		}
		p.metrics.deleted(v.Spec.StorageClassName)
	}
	return nil
}

// remove deletes the object of a volume, which its finalizer keeps.
func (p *provisioner) remove(ctx context.Context, v pv) error {
	err := p.volumes.Client.Delete(ctx, "", v.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion},
	})
	if err != nil {
		return fmt.Errorf("deleting volume %s: %w", v.Name, err)
	}
	return nil
}

// folderGone reports whether no node has the folder of a volume. It asks the API: a node that an old cache
// shows may have listed the volume since.
func (p *provisioner) folderGone(ctx context.Context, v pv) (bool, error) {
	host, ok := localvolume.HostOf(v)
	if !ok {
		return true, nil // Somebody has changed the volume's place, and no node is known to have it.
	}
	node, err := p.nodesNow.Get(ctx, "", host, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking whether node %s has the folder of volume %s: %w", host, v.Name, err)
	}
	return !slices.Contains(node.Status.VolumesInUse, localvolume.UniqueName(v.Name)), nil
}

// hold adds the finalizer.
func (p *provisioner) hold(ctx context.Context, v pv) error {
	next := v.DeepCopy()
	next.Finalizers = append(next.Finalizers, localvolume.Finalizer)
	if _, err := p.volumes.Client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("adding the finalizer of volume %s: %w", v.Name, err)
	}
	return nil
}

// release removes the finalizer.
func (p *provisioner) release(ctx context.Context, v pv) error {
	next := v.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == localvolume.Finalizer })
	if _, err := p.volumes.Client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("removing the finalizer of volume %s: %w", v.Name, err)
	}
	return nil
}
