package cycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

const (
	// bindTimeout is how long the volumes of a pod may take to be bound, or made (Kubernetes,
	// VolumeBindingArgs, BindTimeoutSeconds); bindPoll is the pause between two looks.
	bindTimeout = 10 * time.Minute
	bindPoll    = 200 * time.Millisecond

	// byClass is the index of volumes, and of drivers' capacities, by their class.
	byClass = "class"
)

// assumed are volumes and claims as the scheduler has decided to write them, until the informers show a
// later state, so that two pods do not get one volume.
type assumed struct {
	mu      sync.Mutex
	volumes map[string]*corev1.PersistentVolume
	claims  map[string]*corev1.PersistentVolumeClaim
}

// volume returns what is assumed of a volume, or else what the informer has.
func (a *assumed) volume(stored *corev1.PersistentVolume) *corev1.PersistentVolume {
	if stored == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return current(a.volumes, stored.Name, stored)
}

// claim returns what is assumed of a claim, or else what the informer has.
func (a *assumed) claim(stored *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	if stored == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return current(a.claims, informer.Key(stored), stored)
}

// current returns what is assumed of a stored object. What was assumed of an earlier state is dropped.
func current[T informer.Object](of map[string]T, key string, stored T) T {
	known, ok := of[key]
	if !ok {
		return stored
	}
	if known.GetUID() != stored.GetUID() || known.GetResourceVersion() != stored.GetResourceVersion() {
		delete(of, key)
		return stored
	}
	return known
}

// assume records the decision on the volumes of a pod, and returns the objects to write.
func (a *assumed) assume(chosen placement.Volumes, node string) (
	volumes []*corev1.PersistentVolume, claims []*corev1.PersistentVolumeClaim, err error) {
	for _, binding := range chosen.Bind {
		next, _, err := volume.GetBindVolumeToClaim(binding.Volume, binding.Claim)
		if err != nil {
			return nil, nil, fmt.Errorf("binding volume %s: %w", binding.Volume.Name, err)
		}
		volumes = append(volumes, next)
	}
	for _, provision := range chosen.Provision {
		next := provision.Claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, volume.AnnSelectedNode, node)
		claims = append(claims, next)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.volumes == nil {
		a.volumes, a.claims = map[string]*corev1.PersistentVolume{}, map[string]*corev1.PersistentVolumeClaim{}
	}
	for _, next := range volumes {
		a.volumes[next.Name] = next
	}
	for _, next := range claims {
		a.claims[informer.Key(next)] = next
	}
	return volumes, claims, nil
}

// forget drops what was assumed.
func (a *assumed) forget(volumes []*corev1.PersistentVolume, claims []*corev1.PersistentVolumeClaim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range volumes {
		delete(a.volumes, v.Name)
	}
	for _, c := range claims {
		delete(a.claims, informer.Key(c))
	}
}

// volumesOf returns the volumes of a class.
func (r *run) volumesOf(class string) []*corev1.PersistentVolume {
	found, err := r.volumes.Indexer().ByIndex(byClass, class)
	if err != nil {
		return nil // Run adds the index.
	}
	all := make([]*corev1.PersistentVolume, len(found))
	for i, v := range found {
		all[i] = r.assumed.volume(v)
	}
	return all
}

// indexStorage adds the indices by class, once.
func (l *Loop) indexStorage() error {
	if err := index(l.volumes, volume.GetPersistentVolumeClass); err != nil {
		return fmt.Errorf("indexing volumes by class: %w", err)
	}
	if err := index(l.capacities, func(c *storagev1.CSIStorageCapacity) string { return c.StorageClassName }); err != nil {
		return fmt.Errorf("indexing the capacities of CSI drivers by class: %w", err)
	}
	return nil
}

func index[T informer.Object](i informer.SharedInformer[T], class func(T) string) error {
	if _, ok := i.Indexer().GetIndexers()[byClass]; ok {
		return nil
	}
	return i.AddIndexers(informer.Indexers[T]{byClass: func(obj T) ([]string, error) { return []string{class(obj)}, nil }})
}

// bindVolumes writes what was assumed of the volumes of a pod, and waits until all its claims are bound.
// The controllers bind, and provisioners make volumes.
func (r *run) bindVolumes(ctx context.Context, pod *corev1.Pod, node string, chosen placement.Volumes,
	volumes []*corev1.PersistentVolume, claims []*corev1.PersistentVolumeClaim) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bindTimeout, errBindTimeout)
	defer cancel()
	if err := r.writeVolumes(ctx, volumes, claims); err != nil {
		r.assumed.forget(volumes, claims)
		return fmt.Errorf("binding volumes: %w", err)
	}
	ticker := time.NewTicker(bindPoll)
	defer ticker.Stop()
	for {
		done, err := r.volumesBound(pod, node, volumes, chosen, claims)
		if err != nil {
			return fmt.Errorf("binding volumes: %w", err)
		}
		if done {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("binding volumes: %w", context.Cause(ctx))
		}
	}
}

var errBindTimeout = errors.New("context deadline exceeded")

// writeVolumes writes the bindings of volumes, and the node for which volumes are to be made for claims.
func (r *run) writeVolumes(ctx context.Context, volumes []*corev1.PersistentVolume, claims []*corev1.PersistentVolumeClaim) error {
	for _, next := range volumes {
		if _, err := client.Of[*corev1.PersistentVolume](r.cfg.Client).Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the claim of volume %s: %w", next.Name, err)
		}
	}
	for _, next := range claims {
		if _, err := client.Of[*corev1.PersistentVolumeClaim](r.cfg.Client).Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing the node of claim %s: %w", informer.Key(next), err)
		}
	}
	return nil
}

// volumesBound reports whether all claims of a pod are bound. The error says why they will not be.
func (r *run) volumesBound(pod *corev1.Pod, node string, volumes []*corev1.PersistentVolume, chosen placement.Volumes,
	claims []*corev1.PersistentVolumeClaim) (bool, error) {
	if current, found := r.pods.Indexer().GetByKey(informer.Key(pod)); !found || current.UID != pod.UID {
		return false, errors.New("pod does not exist any more")
	}
	target := stored(r.nodes, node)
	if target == nil {
		return false, fmt.Errorf("failed to get node %q", node)
	}
	all := true
	for i, was := range volumes {
		v := stored(r.volumes, was.Name)
		if v == nil {
			return false, fmt.Errorf("failed to check binding: volume %q is gone", was.Name)
		}
		if v.ResourceVersion == was.ResourceVersion {
			all = false // The informer does not show the write yet.
			continue
		}
		if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != chosen.Bind[i].Claim.UID {
			return false, fmt.Errorf("ClaimRef got reset for pv %q", v.Name)
		}
		bound, err := r.claimBound(chosen.Bind[i].Claim, target)
		if err != nil {
			return false, err
		}
		all = all && bound
	}
	for _, was := range claims {
		c := stored(r.claims, informer.Key(was))
		if c == nil {
			return false, fmt.Errorf("failed to check provisioning pvc: claim %q is gone", was.Name)
		}
		if c.ResourceVersion == was.ResourceVersion {
			all = false
			continue
		}
		if c.Annotations[volume.AnnSelectedNode] != node {
			return false, fmt.Errorf("provisioning failed for PVC %q", c.Name)
		}
		bound, err := r.claimBound(was, target)
		if err != nil {
			return false, err
		}
		all = all && bound
	}
	return all, nil
}

// claimBound reports whether a claim is bound, to a volume that the node reaches.
func (r *run) claimBound(was *corev1.PersistentVolumeClaim, node *corev1.Node) (bool, error) {
	c := stored(r.claims, informer.Key(was))
	if c == nil || c.UID != was.UID {
		return false, fmt.Errorf("failed to check binding: claim %q is gone", was.Name)
	}
	if c.Spec.VolumeName == "" {
		return false, nil
	}
	v := stored(r.volumes, c.Spec.VolumeName)
	if v == nil {
		return false, nil // The informer of volumes may be behind that of claims.
	}
	if err := volume.CheckNodeAffinity(v, node.Labels); err != nil {
		return false, fmt.Errorf("pv %q node affinity doesn't match node %q: %w", v.Name, node.Name, err)
	}
	return metav1.HasAnnotation(c.ObjectMeta, volume.AnnBindCompleted), nil
}
