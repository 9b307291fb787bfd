package placement

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// Volumes is what a pod's claims that wait for it need on one node.
type Volumes struct {
	// Bind are volumes that exist, each with its claim.
	Bind []Binding
	// Provision are claims for which a volume is to be made for the node.
	Provision []Provision
}

// None reports whether the node needs nothing.
func (v Volumes) None() bool { return len(v.Bind)+len(v.Provision) == 0 }

// Binding is a volume and the claim to which it is to be bound.
type Binding struct {
	Volume *corev1.PersistentVolume
	Claim  *corev1.PersistentVolumeClaim
}

// Provision is a claim for which a volume is to be made.
type Provision struct {
	Claim *corev1.PersistentVolumeClaim
	// Capacity is what the driver reports of the storage from which it makes the volume; nil if the driver
	// does not report any.
	Capacity *storagev1.CSIStorageCapacity
}

// ChooseVolumes returns what the claims of a pod need on a node that Place has chosen; nothing if all are
// bound. The error says why the node cannot provide it after all.
func ChooseVolumes(pod *corev1.Pod, cluster Cluster, node *clusterview.Node) (Volumes, error) {
	if !hasClaims(pod) {
		return Volumes{}, nil
	}
	claims, whole := findClaims(pod, cluster.Storage)
	if whole != nil {
		return Volumes{}, fmt.Errorf("choosing volumes for %s/%s: %s", pod.Namespace, pod.Name, whole.reasons[0])
	}
	chosen, why := claims.delayed.on(node)
	if why != "" {
		return Volumes{}, fmt.Errorf("choosing volumes for %s/%s on node %s: %s", pod.Namespace, pod.Name, node.Name, why)
	}
	return chosen, nil
}

// delayed are claims that wait for their first consumer.
type delayed struct {
	claims  []*corev1.PersistentVolumeClaim
	classes map[string]*storagev1.StorageClass
	// volumes are those that could be bound, by class.
	volumes map[string][]*corev1.PersistentVolume
	// pools are by class what drivers report of their storage; a class without an entry is not limited.
	pools map[string][]pool
}

// add adds a claim of a class.
func (d *delayed) add(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, storage Storage) {
	if d.classes == nil {
		d.classes, d.volumes, d.pools = map[string]*storagev1.StorageClass{}, map[string][]*corev1.PersistentVolume{}, map[string][]pool{}
	}
	d.claims = append(d.claims, claim)
	if d.classes[class.Name] == nil {
		d.classes[class.Name] = class
		if storage.Driver != nil && ReportsCapacity(storage.Driver(class.Provisioner)) {
			d.pools[class.Name] = poolsOf(class, storage)
		}
		if storage.Volumes != nil {
			d.volumes[class.Name] = storage.Volumes(class.Name)
		}
	}
}

// on returns what the claims need on a node: the smallest volume that suits a claim and can be reached, or
// else a new one (Kubernetes, plugin VolumeBinding, FindPodVolumes). why says, in the plugin's words, why it
// cannot be had there; it is empty if it can.
func (d delayed) on(node *clusterview.Node) (found Volumes, why string) {
	var open []*corev1.PersistentVolumeClaim
	for _, claim := range d.claims {
		switch selected, has := claim.Annotations[volume.AnnSelectedNode]; {
		case has && selected != node.Name:
			return Volumes{}, noVolumes
		case has:
			found.Provision = append(found.Provision, Provision{Claim: claim})
		default:
			open = append(open, claim)
		}
	}
	// The smallest claim first, so that it gets the smallest volume.
	slices.SortStableFunc(open, func(a, b *corev1.PersistentVolumeClaim) int {
		return cmp.Compare(requested(a), requested(b))
	})
	target := &corev1.Node{}
	target.Name, target.Labels = node.Name, node.Labels
	taken := map[string]*corev1.PersistentVolume{}
	for _, claim := range open {
		match, err := volume.FindMatchingVolume(claim, d.volumes[className(claim)], target, taken, true, true)
		switch {
		case err != nil:
			return Volumes{}, noVolumes
		case match == nil:
			found.Provision = append(found.Provision, Provision{Claim: claim})
		default:
			taken[match.Name] = match
			found.Bind = append(found.Bind, Binding{match, claim})
		}
	}
	for i := range found.Provision {
		if why := d.provide(&found.Provision[i], node); why != "" {
			return Volumes{}, why
		}
	}
	return found, ""
}

// provide finds the storage from which a volume could be made for a node. It returns why there is none.
func (d delayed) provide(p *Provision, node *clusterview.Node) (why string) {
	class := d.classes[className(p.Claim)]
	if class.Provisioner == "" || class.Provisioner == volume.NotSupportedProvisioner || !topologyAllows(class.AllowedTopologies, node) {
		return noVolumes
	}
	pools, limited := d.pools[class.Name]
	if _, sized := p.Claim.Spec.Resources.Requests[corev1.ResourceStorage]; !limited || !sized {
		return ""
	}
	for _, one := range pools {
		if one.has(requested(p.Claim), node) {
			p.Capacity = one.CSIStorageCapacity
			return ""
		}
	}
	return noSpace
}

func requested(claim *corev1.PersistentVolumeClaim) int64 {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return size.Value()
}

// topologyAllows reports whether one of the terms selects a node; no terms select all nodes, an empty term
// selects none.
func topologyAllows(terms []corev1.TopologySelectorTerm, node *clusterview.Node) bool {
	if len(terms) == 0 {
		return true
	}
	misses := func(r corev1.TopologySelectorLabelRequirement) bool {
		value, has := node.Labels[r.Key]
		return !has || !slices.Contains(r.Values, value)
	}
	return slices.ContainsFunc(terms, func(term corev1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions, misses)
	})
}

// volumeScores prefers nodes on which the volumes for a pod's claims are much larger than the claims, or where
// more storage is free if volumes are to be made for all claims. Each class counts as much as the others
// (Kubernetes, plugin VolumeBinding with StorageCapacityScoring).
func volumeScores(pod *corev1.Pod, cluster Cluster, nodes []*clusterview.Node) []int64 {
	scores := make([]int64, len(nodes))
	if !hasClaims(pod) {
		return scores
	}
	claims, whole := findClaims(pod, cluster.Storage)
	if whole != nil || len(claims.delayed.claims) == 0 {
		return scores
	}
	for i, node := range nodes {
		chosen, _ := claims.delayed.on(node)
		wanted, capacity := chosen.sizes()
		if len(wanted) == 0 {
			continue
		}
		var sum int64
		for class, has := range capacity {
			used := int64(maxScore)
			if has > 0 && wanted[class] <= has {
				used = share(wanted[class], has)
			}
			sum += maxScore - used
		}
		scores[i] = int64(math.Round(float64(sum) / float64(len(wanted))))
	}
	return scores
}

// sizes returns by class how much the claims ask for, and how much there is: in the volumes that exist, or if
// none is to be bound, in the storage from which volumes are made.
func (v Volumes) sizes() (wanted, capacity map[string]int64) {
	wanted, capacity = map[string]int64{}, map[string]int64{}
	for _, binding := range v.Bind {
		class := binding.Volume.Spec.StorageClassName
		size := binding.Volume.Spec.Capacity[corev1.ResourceStorage]
		wanted[class] += requested(binding.Claim)
		capacity[class] += size.Value()
	}
	if len(v.Bind) > 0 {
		return wanted, capacity
	}
	for _, p := range v.Provision {
		if p.Capacity == nil {
			continue
		}
		free := p.Capacity.Capacity
		if free == nil {
			free = VolumeLimit(p.Capacity) // It has one, since the claim fits.
		}
		class := className(p.Claim)
		wanted[class] += requested(p.Claim)
		capacity[class] = free.Value() // of the class: not once for each claim
	}
	return wanted, capacity
}

// share returns 100 * part / whole, rounded down; sizes near the largest number do not overflow.
func share(part, whole int64) int64 {
	high, low := bits.Mul64(uint64(part), maxScore)
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return int64(quotient)
}

func hasClaims(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return ClaimName(pod, &v) != "" })
}
