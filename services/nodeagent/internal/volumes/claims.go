package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

const (
	// localDir holds, below the directory of a pod, one directory for each local volume that the pod uses.
	// It is there from before the volume is set up until the pod is removed.
	localDir = "kubernetes.io~local-volume"
	// doneFile is in that directory once the volume is set up for the pod.
	doneFile = "done"
	// claimProtection keeps a claim while pods use it.
	claimProtection = "kubernetes.io/pvc-protection"
)

// setupClaim returns the path of the volume of a claim. Errors have the kubelet's texts.
func (v *Volumes) setupClaim(ctx context.Context, pod *corev1.Pod, source *corev1.Volume) (string, error) {
	pv, err := v.claimed(ctx, pod, source)
	if err != nil {
		return "", &Error{Volume: source.Name, Err: err, text: fmt.Sprintf(
			"Unable to attach or mount volumes: unmounted volumes=[%[1]s], unattached volumes=[], failed to process volumes=[%[1]s]: %[2]v", source.Name, err)}
	}
	if err := volume.CheckNodeAffinity(pv, v.cfg.NodeLabels()); err != nil {
		return "", &Error{Volume: pv.Name, Err: err, text: fmt.Sprintf("MountVolume.NodeAffinity check failed for volume %q : %v", pv.Name, err)}
	}
	path, err := "", error(nil)
	switch {
	case pv.Spec.HostPath != nil:
		path, err = pv.Spec.HostPath.Path, checkHostPath(pv.Spec.HostPath)
	case pv.Spec.Local != nil:
		path, err = v.setupLocal(ctx, pod, pv, ReadOnly(source))
	default:
		err = errors.New("the source of this PersistentVolume is not supported by this node agent, only local and hostPath are")
	}
	if err != nil {
		return "", &Error{Volume: pv.Name, Err: err}
	}
	return path, nil
}

// claimed returns the PersistentVolume that a pod's claim is bound to.
func (v *Volumes) claimed(ctx context.Context, pod *corev1.Pod, source *corev1.Volume) (*corev1.PersistentVolume, error) {
	if v.cfg.Claims == nil || v.cfg.Folders == nil {
		return nil, errors.New("this kind of volume is not supported by this node agent")
	}
	name := ""
	if source.Ephemeral != nil {
		name = ephemeral.VolumeClaimName(pod, source)
	} else {
		name = source.PersistentVolumeClaim.ClaimName
	}
	claim, pv, err := v.bound(ctx, pod.Namespace, name)
	if err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: %w", pod.Namespace, name, err)
	}
	if source.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, err
		}
	}
	if mode := pv.Spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeFilesystem {
		return nil, fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", source.Name, *mode)
	}
	return pv, nil
}

// bound returns a claim and the volume that it is bound to.
func (v *Volumes) bound(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
	claim, err := v.cfg.Claims.Claim(ctx, namespace, name)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("failed to fetch PVC from API server: %w", err)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, claimProtection):
		return nil, nil, errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return nil, nil, errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return nil, nil, errors.New("PVC has empty pvc.Spec.VolumeName")
	}
	pv, err := v.cfg.Claims.PersistentVolume(ctx, claim.Spec.VolumeName)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	case pv.Spec.ClaimRef == nil:
		return nil, nil, fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name)
	case pv.Spec.ClaimRef.UID != claim.UID:
		return nil, nil, fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s",
			pv.Name, pv.Spec.ClaimRef.UID, claim.UID)
	}
	return claim, pv, nil
}

// setupLocal returns the path of a local volume. The first pod that uses it gives it to its fsGroup.
func (v *Volumes) setupLocal(ctx context.Context, pod *corev1.Pod, pv *corev1.PersistentVolume, readOnly bool) (string, error) {
	dir := v.dir(pod, localDir, pv.Name)
	first, err := v.use(pod, pv, dir)
	if err != nil {
		return "", err
	}
	path, err := v.cfg.Folders.Provide(ctx, pv)
	if err != nil {
		return "", err
	}
	done := filepath.Join(dir, doneFile)
	if _, err := os.Lstat(done); err == nil {
		return path, nil
	}
	if group := fsGroup(pod); group != nil && first && !readOnly {
		policy := pod.Spec.SecurityContext.FSGroupChangePolicy
		if err := v.cfg.Folders.Own(ctx, pv, *group, policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch); err != nil {
			return "", err
		}
	}
	if err := os.WriteFile(done, nil, 0o600); err != nil {
		return "", fmt.Errorf("recording that the volume is set up: %w", err)
	}
	return path, nil
}

// use records that a pod uses a local volume, and reports whether no other pod does. It refuses a second
// pod if the volume is for one.
func (v *Volumes) use(pod *corev1.Pod, pv *corev1.PersistentVolume, dir string) (first bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	users, err := v.users(pv.Name)
	if err != nil {
		return false, err
	}
	mine := slices.Contains(users, string(pod.UID))
	others := slices.DeleteFunc(users, func(uid string) bool { return uid == string(pod.UID) })
	if len(others) > 0 && !mine && slices.Contains(pv.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return false, errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return false, fmt.Errorf("recording that the pod uses the volume: %w", err)
	}
	return len(others) == 0, nil
}

// LocalVolumeInUse reports whether a pod on the node uses the local volume of a PersistentVolume.
func (v *Volumes) LocalVolumeInUse(name string) (bool, error) {
	if !isName(name) {
		return false, fmt.Errorf("looking for the pods of a volume: %q is not a name", name)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	users, err := v.users(name)
	return len(users) > 0, err
}

// users returns the UIDs of the pods that use a local volume.
func (v *Volumes) users(name string) ([]string, error) {
	pods, err := v.Pods()
	if err != nil {
		return nil, err
	}
	var users []string
	for _, uid := range pods {
		_, err := os.Lstat(filepath.Join(v.PodDir(uid), "volumes", localDir, name))
		if err == nil {
			users = append(users, uid)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("looking for the pods of volume %s: %w", name, err)
		}
	}
	return users, nil
}
