package placement

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// Storage finds what the volumes of a pod need. Each function returns nil for an object that does
// not exist. The objects are only read.
type Storage struct {
	Claim  func(namespace, name string) *corev1.PersistentVolumeClaim
	Volume func(name string) *corev1.PersistentVolume
	Class  func(name string) *storagev1.StorageClass
	// Volumes returns the volumes of a class that could be bound to a claim; none when it is nil.
	Volumes func(class string) []*corev1.PersistentVolume
	// Driver finds a CSI driver. When it is nil, no driver limits what can be made.
	Driver func(name string) *storagev1.CSIDriver
	// Capacities returns what CSI drivers report of the storage for a class; nothing when it is nil.
	Capacities func(class string) []*storagev1.CSIStorageCapacity
}

// bindCompleted is the annotation of a bound claim: a claim that only names its volume may lose it
// to another.
const bindCompleted = "pv.kubernetes.io/bind-completed"

// ClaimName returns the name of the claim that a volume of pod uses; empty if it uses none.
func ClaimName(pod *corev1.Pod, volume *corev1.Volume) string {
	switch {
	case volume.PersistentVolumeClaim != nil:
		return volume.PersistentVolumeClaim.ClaimName
	case volume.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, volume)
	}
	return ""
}

// claimed holds a pod's claims, the volumes to which they are bound, and the claims that are to be
// bound on the pod's node.
type claimed struct {
	claims  []*corev1.PersistentVolumeClaim
	volumes []boundVolume
	delayed delayed
}

// boundVolume is the volume of a claim; nil if it does not exist.
type boundVolume struct {
	*corev1.PersistentVolume
	// ephemeral says that the claim was created for the pod.
	ephemeral bool
}

// findClaims finds the claims of pod and the volumes to which they are bound. The refusal says what
// keeps the pod from every node (Kubernetes, PreFilter of the plugins VolumeRestrictions,
// VolumeBinding and VolumeZone).
func findClaims(pod *corev1.Pod, storage Storage) (claimed, *refusal) {
	found, why := lookUp(pod, storage)
	if why == "" {
		why = found.sort(storage)
	}
	for _, claim := range found.claims {
		if why != "" {
			break
		}
		if !isBound(claim) {
			continue
		}
		volume := boundVolume{storage.Volume(claim.Spec.VolumeName), !refersTo(pod, claim)}
		if volume.PersistentVolume == nil && !volume.ephemeral {
			why = fmt.Sprintf("persistentvolume %q not found", claim.Spec.VolumeName)
			break
		}
		found.volumes = append(found.volumes, volume)
	}
	if why != "" {
		return claimed{}, &refusal{filter: VolumeBinding, final: true, reasons: []string{why}}
	}
	return found, nil
}

// isBound reports whether a claim is bound to a volume.
func isBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, bindCompleted)
}

// refersTo reports whether a volume of pod names the claim.
func refersTo(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
	})
}

// lookUp finds the claims of pod, or says which of them cannot be used.
func lookUp(pod *corev1.Pod, storage Storage) (found claimed, why string) {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil && storage.Claim(pod.Namespace, source.ClaimName) == nil {
			return found, fmt.Sprintf("persistentvolumeclaim %q not found", source.ClaimName)
		}
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		name := ClaimName(pod, volume)
		if name == "" {
			continue
		}
		claim := storage.Claim(pod.Namespace, name)
		switch {
		case claim == nil:
			return found, fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
		case claim.Status.Phase == corev1.ClaimLost:
			return found, fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
		case claim.DeletionTimestamp != nil:
			return found, fmt.Sprintf("persistentvolumeclaim %q is being deleted", name)
		}
		if volume.Ephemeral != nil {
			if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
				return found, err.Error()
			}
		}
		found.claims = append(found.claims, claim)
	}
	return found, ""
}

// sort finds the claims that are to be bound on the pod's node. It says which are not bound although
// they need not wait for that; empty if there are none.
func (c *claimed) sort(storage Storage) (why string) {
	for _, claim := range c.claims {
		if isBound(claim) {
			continue
		}
		class := waitsForConsumer(claim, storage)
		if class == nil || claim.Spec.VolumeName != "" {
			return "pod has unbound immediate PersistentVolumeClaims"
		}
		c.delayed.add(claim, class, storage)
	}
	return ""
}

// waitsForConsumer returns the class of a claim that is to be bound only when a pod that uses it is
// placed; nil for another claim.
func waitsForConsumer(claim *corev1.PersistentVolumeClaim, storage Storage) *storagev1.StorageClass {
	name := className(claim)
	if name == "" {
		return nil
	}
	class := storage.Class(name)
	if class == nil || class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return nil
	}
	return class
}

func className(claim *corev1.PersistentVolumeClaim) string {
	if name, found := claim.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return name
	}
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// filters return whether a node can provide the volumes of pod's claims. There are none for a pod
// without claims.
func (c claimed) filters(pod *corev1.Pod, cluster Cluster) []filter {
	if len(c.claims) == 0 {
		return nil
	}
	return []filter{c.usedFilter(pod, cluster), c.reachFilter(), c.zoneFilter()}
}

// usedFilter refuses a pod if one of its ReadWriteOncePod claims is in use.
func (c claimed) usedFilter(pod *corev1.Pod, cluster Cluster) filter {
	used := slices.ContainsFunc(c.claims, func(claim *corev1.PersistentVolumeClaim) bool {
		return slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) && refersTo(pod, claim) && inUse(claim, cluster)
	})
	return func(*clusterview.Node) *refusal {
		if !used {
			return nil
		}
		return &refusal{filter: VolumeRestrictions, reasons: []string{
			"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
		}}
	}
}

// inUse reports whether a pod on any node uses a claim.
func inUse(claim *corev1.PersistentVolumeClaim, cluster Cluster) bool {
	for _, node := range cluster.Nodes {
		for _, pod := range node.Pods {
			if pod.Namespace == claim.Namespace && refersTo(pod, claim) {
				return true
			}
		}
	}
	return false
}

// reachFilter refuses nodes from which a volume cannot be reached, or on which a claim that waits for
// the pod could not be bound.
func (c claimed) reachFilter() filter {
	reachable := make([]*nodeaffinity.LazyErrorNodeSelector, len(c.volumes))
	for i, volume := range c.volumes {
		if volume.PersistentVolume != nil && volume.Spec.NodeAffinity != nil && volume.Spec.NodeAffinity.Required != nil {
			reachable[i] = nodeaffinity.NewLazyErrorNodeSelector(volume.Spec.NodeAffinity.Required)
		}
	}
	return func(node *clusterview.Node) *refusal {
		var reasons []string
		reached, exist := c.reached(reachable, node)
		if !reached {
			reasons = append(reasons, "node(s) didn't match PersistentVolume's node affinity")
		}
		if _, why := c.delayed.on(node); why != "" {
			reasons = append(reasons, why)
		}
		if !exist {
			reasons = append(reasons, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")
		}
		if len(reasons) == 0 {
			return nil
		}
		return &refusal{filter: VolumeBinding, final: true, reasons: reasons}
	}
}

// reached reports whether the bound volumes can be reached from a node, and whether they exist. Like
// Kubernetes it stops at the first fault.
func (c claimed) reached(reachable []*nodeaffinity.LazyErrorNodeSelector, node *clusterview.Node) (reached, exist bool) {
	for i, volume := range c.volumes {
		if volume.PersistentVolume == nil {
			return true, false
		}
		if reachable[i] == nil {
			continue
		}
		// As in Kubernetes a volume selects by labels only: the node has no name here.
		matches, err := reachable[i].Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.Labels}})
		if err != nil || !matches {
			return false, true
		}
	}
	return true, true
}

// zones are the zones from which a volume can be reached, according to one of its labels.
type zones struct {
	key    string
	values []string
}

// stable maps zone and region labels to their present names.
var stable = map[string]string{
	corev1.LabelFailureDomainBetaZone: corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	corev1.LabelTopologyZone: corev1.LabelTopologyZone, corev1.LabelTopologyRegion: corev1.LabelTopologyRegion,
}

// zoneFilter refuses nodes in other zones than the volumes'. Nodes without zone labels pass.
func (c claimed) zoneFilter() filter {
	var wanted []zones
	for _, volume := range c.volumes {
		if volume.ephemeral {
			continue // As in Kubernetes the zones of such volumes are not checked, only their node affinity.
		}
		for key := range stable {
			if label, has := volume.Labels[key]; has {
				if values := zoneValues(label); values != nil {
					wanted = append(wanted, zones{key, values})
				}
			}
		}
	}
	return func(node *clusterview.Node) *refusal {
		if len(wanted) == 0 || !zoned(node) {
			return nil
		}
		for _, w := range wanted {
			value, has := node.Labels[w.key]
			if !has {
				value, has = node.Labels[stable[w.key]]
			}
			if !has || !slices.Contains(w.values, value) {
				return &refusal{filter: VolumeZone, final: true, reasons: []string{"node(s) had no available volume zone"}}
			}
		}
		return nil
	}
}

func zoned(node *clusterview.Node) bool {
	for key := range stable {
		if _, has := node.Labels[key]; has {
			return true
		}
	}
	return false
}

// zoneValues returns the zones in a volume's label; nil if one of them is empty, since the label
// then says nothing.
func zoneValues(label string) []string {
	values := strings.Split(label, "__")
	for i := range values {
		if values[i] = strings.TrimSpace(values[i]); values[i] == "" {
			return nil
		}
	}
	return values
}
