package placement

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// Reasons of the plugin VolumeBinding against a node.
const (
	noVolumes = "node(s) didn't find available persistent volumes to bind"
	noSpace   = "node(s) did not have enough free storage"
)

// pool is storage of a CSI driver that some nodes reach.
type pool struct {
	*storagev1.CSIStorageCapacity
	nodes labels.Selector
}

// has reports whether a volume of a size in bytes can be made in the pool, for a node.
func (p pool) has(size int64, node *clusterview.Node) bool {
	limit := VolumeLimit(p.CSIStorageCapacity)
	return limit != nil && limit.Value() >= size && p.nodes.Matches(labels.Set(node.Labels))
}

// VolumeLimit returns the largest size of a volume that a driver can make in a pool; nil if it cannot make
// any. Drivers that do not report it are taken at their whole capacity (KEP-1472).
func VolumeLimit(capacity *storagev1.CSIStorageCapacity) *resource.Quantity {
	if capacity.MaximumVolumeSize != nil {
		return capacity.MaximumVolumeSize
	}
	return capacity.Capacity
}

// ReportsCapacity reports whether a CSI driver, which may be nil, reports how much storage is left, so that
// volumes can be made only where there is enough.
func ReportsCapacity(driver *storagev1.CSIDriver) bool {
	return driver != nil && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
}

// poolsOf returns the pools for volumes of a class. One without a topology, or with a topology that nothing
// can match, is reached from no node.
func poolsOf(class *storagev1.StorageClass, storage Storage) []pool {
	if storage.Capacities == nil {
		return nil
	}
	var pools []pool
	for _, capacity := range storage.Capacities(class.Name) {
		if capacity.NodeTopology == nil {
			continue
		}
		if nodes, err := metav1.LabelSelectorAsSelector(capacity.NodeTopology); err == nil {
			pools = append(pools, pool{capacity, nodes})
		}
	}
	return pools
}
