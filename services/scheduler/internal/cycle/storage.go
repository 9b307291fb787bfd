package cycle

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/scheduler/internal/placement"
)

// storage returns access to what the informers have of storage.
func (r *run) storage() placement.Storage {
	return placement.Storage{
		Claim: func(namespace, name string) *corev1.PersistentVolumeClaim {
			return r.assumed.claim(stored(r.claims, namespace+"/"+name))
		},
		Volume:  func(name string) *corev1.PersistentVolume { return r.assumed.volume(stored(r.volumes, name)) },
		Volumes: r.volumesOf,
		Class:   func(name string) *storagev1.StorageClass { return stored(r.classes, name) },
		Driver:  func(name string) *storagev1.CSIDriver { return stored(r.drivers, name) },
		Capacities: func(class string) []*storagev1.CSIStorageCapacity {
			found, err := r.capacities.Indexer().ByIndex(byClass, class)
			if err != nil {
				return nil // Run adds the index.
			}
			return found
		},
	}
}

// stored returns an informer's object by key; nil if there is none.
func stored[T informer.Object](i informer.SharedInformer[T], key string) T {
	var none T
	if obj, exists := i.Indexer().GetByKey(key); exists {
		return obj
	}
	return none
}

// claimHandler retries the pods that use a claim when the claim changes.
func (r *run) claimHandler() informer.ResourceEventHandler[*corev1.PersistentVolumeClaim] {
	changed := func(claim *corev1.PersistentVolumeClaim) {
		namespace, name := claim.Namespace, claim.Name
		r.queue.MoveThose(func(pod *corev1.Pod) bool { return pod.Namespace == namespace && uses(pod, name) }, placement.VolumeBinding)
	}
	return informer.ResourceEventHandlerFuncs[*corev1.PersistentVolumeClaim]{
		AddFunc: func(claim *corev1.PersistentVolumeClaim, _ bool) { changed(claim) },
		UpdateFunc: func(old, claim *corev1.PersistentVolumeClaim) {
			if old.ResourceVersion != claim.ResourceVersion {
				changed(claim)
			}
		},
	}
}

// uses reports whether pod has a volume of the named claim in its namespace.
func uses(pod *corev1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		if placement.ClaimName(pod, &pod.Spec.Volumes[i]) == claim {
			return true
		}
	}
	return false
}

// volumeHandler retries pods when a volume appears, or becomes reachable from other nodes.
func (r *run) volumeHandler() informer.ResourceEventHandler[*corev1.PersistentVolume] {
	return informer.ResourceEventHandlerFuncs[*corev1.PersistentVolume]{
		AddFunc: func(*corev1.PersistentVolume, bool) { r.queue.Move(placement.VolumeBinding, placement.VolumeZone) },
		UpdateFunc: func(old, volume *corev1.PersistentVolume) {
			if !equality.Semantic.DeepEqual(old.Spec, volume.Spec) || !equality.Semantic.DeepEqual(old.Labels, volume.Labels) {
				r.queue.Move(placement.VolumeBinding, placement.VolumeZone)
			}
		},
	}
}

// classHandler retries pods when a class appears, since it determines how a claim is bound, or when it allows
// other nodes.
func (r *run) classHandler() informer.ResourceEventHandler[*storagev1.StorageClass] {
	return informer.ResourceEventHandlerFuncs[*storagev1.StorageClass]{
		AddFunc: func(*storagev1.StorageClass, bool) { r.queue.Move(placement.VolumeBinding) },
		UpdateFunc: func(old, class *storagev1.StorageClass) {
			if !equality.Semantic.DeepEqual(old.AllowedTopologies, class.AllowedTopologies) {
				r.queue.Move(placement.VolumeBinding)
			}
		},
	}
}

// driverHandler retries pods when a CSI driver no longer limits by what it reports of its storage.
func (r *run) driverHandler() informer.ResourceEventHandler[*storagev1.CSIDriver] {
	return informer.ResourceEventHandlerFuncs[*storagev1.CSIDriver]{
		UpdateFunc: func(old, driver *storagev1.CSIDriver) {
			if placement.ReportsCapacity(old) && !placement.ReportsCapacity(driver) {
				r.queue.Move(placement.VolumeBinding)
			}
		},
		DeleteFunc: func(driver informer.DeletedObject[*storagev1.CSIDriver]) {
			if driver.OptionalObj == nil || placement.ReportsCapacity(driver.OptionalObj) {
				r.queue.Move(placement.VolumeBinding)
			}
		},
	}
}

// capacityHandler retries pods when a CSI driver reports more storage.
func (r *run) capacityHandler() informer.ResourceEventHandler[*storagev1.CSIStorageCapacity] {
	return informer.ResourceEventHandlerFuncs[*storagev1.CSIStorageCapacity]{
		AddFunc: func(*storagev1.CSIStorageCapacity, bool) { r.queue.Move(placement.VolumeBinding) },
		UpdateFunc: func(old, capacity *storagev1.CSIStorageCapacity) {
			before, now := placement.VolumeLimit(old), placement.VolumeLimit(capacity)
			if now != nil && (before == nil || now.Cmp(*before) > 0) {
				r.queue.Move(placement.VolumeBinding)
			}
		},
	}
}
