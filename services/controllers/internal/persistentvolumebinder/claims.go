package persistentvolumebinder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/services/controllers/internal/podclaims"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// unbound finds a volume for a claim that has none, or says what it waits for.
func (b *binder) unbound(ctx context.Context, c claim) error {
	if c.Spec.VolumeName != "" {
		return b.wanted(ctx, c)
	}
	class := b.classOf(c)
	if class != nil && class.VolumeBindingMode == nil {
		return fmt.Errorf("VolumeBindingMode not set for StorageClass %q", class.Name)
	}
	delayed := class != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	b.catchUp(ctx, c)
	found, err := b.match(c, delayed)
	if err != nil {
		return fmt.Errorf("error finding PV for claim %q: %w", key(c), err)
	}
	if found != nil {
		return b.bind(ctx, found, c)
	}
	if assigned, err := b.assignClass(ctx, c); assigned || err != nil {
		return err
	}
	switch {
	case delayed && !volume.IsDelayBindingProvisioning(c):
		if err := b.tellWaiting(c); err != nil {
			return err
		}
	case volume.GetPersistentVolumeClaimClass(c) != "":
		return b.provision(ctx, c, class)
	default:
		b.events.Event(c, corev1.EventTypeNormal, "FailedBinding", "no persistent volumes available for this claim and no storage class is set")
	}
	return b.setClaim(ctx, c, corev1.ClaimPending, nil)
}

// catchUp waits a little until the caches of volumes and classes show what was there before a claim was last written, so
// that no Event says that its volume or class is missing.
func (b *binder) catchUp(ctx context.Context, c claim) {
	revision, err := strconv.ParseInt(c.ResourceVersion, 10, 64)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, wait := range []func(context.Context, int64) error{b.volumes.WaitForRevision, b.classes.WaitForRevision} {
		if err := wait(ctx, revision); err != nil {
			return // What arrives later brings the claim here again.
		}
	}
}

// wanted binds a claim to the volume that it names.
func (b *binder) wanted(ctx context.Context, c claim) error {
	v, found := b.volumes.Indexer().GetByKey(c.Spec.VolumeName)
	switch {
	case !found:
		return b.setClaim(ctx, c, corev1.ClaimPending, nil)
	case v.Spec.ClaimRef == nil:
		if why := mismatch(v, c); why != nil {
			b.events.Event(c, corev1.EventTypeWarning, "VolumeMismatch", "Cannot bind to requested volume %q: %s", v.Name, why)
			return b.setClaim(ctx, c, corev1.ClaimPending, nil)
		}
		return b.bind(ctx, v, c)
	case volume.IsVolumeBoundToClaim(v, c):
		return b.bind(ctx, v, c)
	}
	b.events.Event(c, corev1.EventTypeWarning, "FailedBinding", "volume %q already bound to a different claim.", v.Name)
	if metav1.HasAnnotation(c.ObjectMeta, volume.AnnBoundByController) {
		// Somebody has removed the annotation that says that the binding was complete.
		return fmt.Errorf("invalid binding of claim %q to volume %q: volume already claimed by %s/%s",
			key(c), v.Name, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
	}
	return b.setClaim(ctx, c, corev1.ClaimPending, nil)
}

// bound completes the binding of a claim, or tells that its volume is lost.
func (b *binder) bound(ctx context.Context, c claim) error {
	if c.Spec.VolumeName == "" {
		return b.lose(ctx, c, "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!")
	}
	v, found := b.volumes.Indexer().GetByKey(c.Spec.VolumeName)
	switch {
	case !found:
		return b.lose(ctx, c, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == c.UID:
		return b.bind(ctx, v, c)
	}
	return b.lose(ctx, c, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

func (b *binder) lose(ctx context.Context, c claim, reason, message string) error {
	if c.Status.Phase == corev1.ClaimLost {
		return nil
	}
	if err := b.setClaim(ctx, c, corev1.ClaimLost, nil); err != nil {
		return err
	}
	b.events.Event(c, corev1.EventTypeWarning, reason, "%s", message)
	return nil
}

// match returns the volume that suits a claim best: of those with the fewest access modes beyond the
// requested ones, the smallest. It returns nil if none suits. A delayed claim is matched only by a volume
// that names it.
func (b *binder) match(c claim, delayed bool) (pv, error) {
	byModes := map[string][]pv{}
	for _, v := range b.volumes.In("") {
		if containsAll(v.Spec.AccessModes, c.Spec.AccessModes) {
			byModes[modes(v)] = append(byModes[modes(v)], v)
		}
	}
	order := make([]string, 0, len(byModes))
	for of := range byModes {
		order = append(order, of)
	}
	slices.SortFunc(order, func(x, y string) int {
		return cmp.Or(strings.Count(x, ",")-strings.Count(y, ","), strings.Compare(x, y))
	})
	for _, of := range order {
		candidates := byModes[of]
		slices.SortFunc(candidates, func(x, y pv) int { return strings.Compare(x.Name, y.Name) })
		found, err := volume.FindMatchingVolume(c, candidates, nil, nil, delayed, true)
		if found != nil || err != nil {
			return found, err
		}
	}
	return nil, nil
}

// modes returns a text that volumes with the same access modes share.
func modes(v pv) string {
	var all []string
	for _, mode := range v.Spec.AccessModes {
		all = append(all, string(mode))
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

func containsAll(has, wanted []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(wanted, func(mode corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(has, mode) })
}

// mismatch returns why a volume that a claim names cannot be bound to it; nil if it can.
func mismatch(v pv, c claim) error {
	requested, has := c.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case v.DeletionTimestamp != nil:
		return fmt.Errorf("the volume is marked for deletion %q", v.Name)
	case has.Value() < requested.Value():
		return errors.New("requested PV is too small")
	case volume.GetPersistentVolumeClass(v) != volume.GetPersistentVolumeClaimClass(c):
		return errors.New("storageClassName does not match")
	case text(c.Spec.VolumeAttributesClassName) != text(v.Spec.VolumeAttributesClassName):
		return errors.New("volumeAttributesClassName does not match")
	case volume.CheckVolumeModeMismatches(&c.Spec, &v.Spec):
		return errors.New("incompatible volumeMode")
	case !volume.CheckAccessModes(c, v):
		return errors.New("incompatible accessMode")
	}
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func key(c claim) string { return c.Namespace + "/" + c.Name }

// classOf returns the StorageClass of a claim; nil if it names none, or one that does not exist.
func (b *binder) classOf(c claim) *storagev1.StorageClass {
	name := volume.GetPersistentVolumeClaimClass(c)
	if name == "" {
		return nil
	}
	class, _ := b.classes.Indexer().GetByKey(name)
	return class
}

// assignClass gives the default class to a claim that was made before there was one; it reports whether it
// did.
func (b *binder) assignClass(ctx context.Context, c claim) (bool, error) {
	if volume.PersistentVolumeClaimHasClass(c) {
		return false, nil
	}
	class := b.defaultClass()
	if class == nil {
		return false, nil
	}
	next := c.DeepCopy()
	next.Spec.StorageClassName = &class.Name
	if _, err := b.claims.Client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
		return false, fmt.Errorf("can't update PersistentVolumeClaim[%q]: %w", key(c), err)
	}
	return true, nil
}

// defaultClass returns the newest default StorageClass; nil if there is none.
func (b *binder) defaultClass() *storagev1.StorageClass {
	classes := slices.DeleteFunc(b.classes.Indexer().List(), func(class *storagev1.StorageClass) bool { return !isDefault(class) })
	if len(classes) == 0 {
		return nil
	}
	return slices.MinFunc(classes, func(x, y *storagev1.StorageClass) int {
		return cmp.Or(y.CreationTimestamp.Compare(x.CreationTimestamp.Time), strings.Compare(x.Name, y.Name))
	})
}

func isDefault(class *storagev1.StorageClass) bool {
	return class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
}

// tellWaiting records what a claim waits for whose binding waits for a pod.
func (b *binder) tellWaiting(c claim) error {
	pods, err := podclaims.Users(b.pods, c)
	if err != nil {
		return err
	}
	var names []string
	for _, pod := range pods {
		if pod.Spec.NodeName == "" && !podstate.Ended(pod) {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	switch len(names) {
	case 0:
		b.events.Event(c, corev1.EventTypeNormal, "WaitForFirstConsumer", "waiting for first consumer to be created before binding")
	case 1:
		b.events.Event(c, corev1.EventTypeNormal, "WaitForPodScheduled", "waiting for pod %s to be scheduled", names[0])
	default:
		b.events.Event(c, corev1.EventTypeNormal, "WaitForPodScheduled", "waiting for pods %s to be scheduled", strings.Join(names, ","))
	}
	return nil
}

// provision asks the provisioner of a claim's class for a volume.
func (b *binder) provision(ctx context.Context, c claim, class *storagev1.StorageClass) error {
	switch {
	case class == nil:
		b.events.Event(c, corev1.EventTypeWarning, "ProvisioningFailed", "storageclass.storage.k8s.io %q not found", volume.GetPersistentVolumeClaimClass(c))
		return nil
	case strings.HasPrefix(class.Provisioner, "kubernetes.io/"):
		b.events.Event(c, corev1.EventTypeWarning, "ProvisioningFailed", "no volume plugin matched name: %s", class.Provisioner)
		return nil
	}
	if c.Annotations[volume.AnnStorageProvisioner] != class.Provisioner {
		next := c.DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, volume.AnnBetaStorageProvisioner, class.Provisioner)
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, volume.AnnStorageProvisioner, class.Provisioner)
		if _, err := b.claims.Client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			b.events.Event(c, corev1.EventTypeWarning, "ProvisioningFailed", "Error saving claim: %v", err)
			return fmt.Errorf("asking the provisioner %s for a volume for claim %q: %w", class.Provisioner, key(c), err)
		}
	}
	b.events.Event(c, corev1.EventTypeNormal, "ExternalProvisioning",
		"Waiting for a volume to be created either by the external provisioner '%s' or manually by the system administrator. "+
			"If volume creation is delayed, please verify that the provisioner is running and correctly registered.", class.Provisioner)
	return nil
}
