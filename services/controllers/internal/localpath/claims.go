package localpath

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/libs/localvolume"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// wanted reports whether a claim waits for a volume of this provisioner.
func wanted(c claim) bool {
	asked := cmp.Or(c.Annotations[volume.AnnStorageProvisioner], c.Annotations[volume.AnnBetaStorageProvisioner])
	return asked == localvolume.Provisioner && c.Spec.VolumeName == "" && c.DeletionTimestamp == nil
}

// selectedNode returns the node that the scheduler has selected for the first pod of a claim.
func selectedNode(c claim) string { return c.Annotations[volume.AnnSelectedNode] }

// A refusal is why a claim gets no volume as it is. It is no fault of the controller, so the claim is
// reconciled again only when something changes.
type refusal struct{ error }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// A misplacement is why a selected node cannot have the volume.
type misplacement struct{ error }

func misplaced(format string, args ...any) error { return misplacement{fmt.Errorf(format, args...)} }

// reconcileClaim creates the volume of a claim.
func (p *provisioner) reconcileClaim(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	c, found := p.claims.Get(key)
	if !found || !wanted(c) {
		return reconcile.Result{}, nil
	}
	of, found := p.classes.Indexer().GetByKey(volume.GetPersistentVolumeClaimClass(c))
	if !found {
		// The binder tells the user, and a new class asks for a reconcile.
		return reconcile.Result{}, nil
	}
	if of.Provisioner != localvolume.Provisioner {
		return reconcile.Result{}, nil
	}
	delayed := of.VolumeBindingMode != nil && *of.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if delayed && selectedNode(c) == "" {
		return reconcile.Result{}, nil
	}
	if _, found := p.volumes.Indexer().GetByKey(volumeName(c)); found {
		return reconcile.Result{}, nil // The binder binds it.
	}
	p.events.Event(c, corev1.EventTypeNormal, "Provisioning", "External provisioner is provisioning volume for claim %q", informer.Key(c))
	began := time.Now()
	err := p.provision(ctx, c, of)
	p.metrics.provisioned(of.Name, time.Since(began), err)
	if err == nil {
		p.events.Event(c, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", volumeName(c))
		return reconcile.Result{}, nil
	}
	p.events.Event(c, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", of.Name, err)
	switch {
	case errors.As(err, &misplacement{}):
		return reconcile.Result{}, p.reschedule(ctx, c)
	case errors.As(err, &refusal{}):
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, err
}

// volumeName returns the name that provisioners give a claim's volume.
func volumeName(c claim) string { return "pvc-" + string(c.UID) }

// provision creates the volume of a claim on the selected node.
func (p *provisioner) provision(ctx context.Context, c claim, of class) error {
	if err := check(c, of); err != nil {
		return err
	}
	folder, err := p.folder(selectedNode(c))
	if err != nil {
		return err
	}
	_, err = p.volumes.Client.Create(ctx, newVolume(c, of, selectedNode(c), folder), metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating volume %s: %w", volumeName(c), err)
	}
	return nil
}

// check returns what of a claim or its class no local-path volume offers.
func check(c claim, of class) error {
	supported := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	for _, mode := range c.Spec.AccessModes {
		if !slices.Contains(supported, mode) {
			return refuse("access mode %s is not supported: a local-path volume is on one node, so only ReadWriteOnce and ReadWriteOncePod are", mode)
		}
	}
	switch {
	case c.Spec.VolumeMode != nil && *c.Spec.VolumeMode != corev1.PersistentVolumeFilesystem:
		return refuse("volume mode %s is not supported, only Filesystem is", *c.Spec.VolumeMode)
	case c.Spec.Selector != nil:
		return refuse("claim.Spec.Selector is not supported")
	case c.Spec.DataSource != nil || c.Spec.DataSourceRef != nil:
		return refuse("claim.Spec.DataSource is not supported: a local-path volume begins empty")
	case c.Spec.VolumeAttributesClassName != nil && *c.Spec.VolumeAttributesClassName != "":
		return refuse("VolumeAttributesClass %q is not supported", *c.Spec.VolumeAttributesClassName)
	case len(of.MountOptions) > 0:
		return refuse("Mount options are not supported by the provisioner but StorageClass %q has mount options %v", of.Name, of.MountOptions)
	case len(of.Parameters) > 0:
		return refuse("the class has the parameters %v, but there are none", slices.Sorted(maps.Keys(of.Parameters)))
	case selectedNode(c) == "":
		return refuse("no node is selected: set the volumeBindingMode of the class to %s", storagev1.VolumeBindingWaitForFirstConsumer)
	}
	return nil
}

// folder returns the folder of the volumes of a node. The host name of the node must be its name: it is
// the only label by which others know on which node the volume is, and a node may set it itself.
func (p *provisioner) folder(name string) (string, error) {
	node, found := p.nodes.Indexer().GetByKey(name)
	if !found {
		return "", misplaced("node %q not found", name)
	}
	if host := node.Labels[corev1.LabelHostname]; host != name {
		return "", misplaced("the label %s of node %q is %q; it must be the node's name", corev1.LabelHostname, name, host)
	}
	folder, published := node.Annotations[localvolume.NodeAnnotation]
	if !published {
		return "", misplaced("node %q has no folder for local volumes (annotation %s)", name, localvolume.NodeAnnotation)
	}
	if err := localvolume.CheckFolder(folder); err != nil {
		return "", misplaced("node %q: %w", name, err)
	}
	return folder, nil
}

// newVolume returns the volume of a claim on a node.
func newVolume(c claim, of class, node, folder string) pv {
	policy, mode := corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeFilesystem
	if of.ReclaimPolicy != nil {
		policy = *of.ReclaimPolicy
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: volumeName(c), Annotations: map[string]string{volume.AnnDynamicallyProvisioned: localvolume.Provisioner},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: c.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes: slices.Clone(c.Spec.AccessModes), VolumeMode: &mode,
			PersistentVolumeReclaimPolicy: policy, StorageClassName: of.Name, NodeAffinity: localvolume.OnHost(node),
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: c.Namespace, Name: c.Name,
				UID: c.UID, ResourceVersion: c.ResourceVersion,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: localvolume.Path(folder, volumeName(c))}},
		},
	}
	if policy == corev1.PersistentVolumeReclaimDelete {
		v.Finalizers = []string{localvolume.Finalizer}
	}
	return v
}

// reschedule makes the scheduler select a node again.
func (p *provisioner) reschedule(ctx context.Context, c claim) error {
	next := c.DeepCopy()
	delete(next.Annotations, volume.AnnSelectedNode)
	if _, err := p.claims.Client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("removing the selected node of claim %q: %w", informer.Key(c), err)
	}
	return nil
}
