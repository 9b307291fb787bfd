package deployment

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// bounds limit a rolling update: at most surge pods above the desired number, and at most
// unavailable of the desired pods not available.
type bounds struct{ surge, unavailable int32 }

// boundsOf returns the bounds of a Deployment in pods. A surge in percent is rounded up, an
// unavailability down. If both come to 0, one pod may be unavailable, since otherwise the rollout
// could never move (Kubernetes, deploymentutil.ResolveFenceposts). For any strategy but the rolling
// update both are 0.
func boundsOf(d *appsv1.Deployment) bounds {
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return bounds{}
	}
	wanted := replicas(d)
	surge, unavailable := intstr.FromString("25%"), intstr.FromString("25%")
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil {
		if rolling.MaxSurge != nil {
			surge = *rolling.MaxSurge
		}
		if rolling.MaxUnavailable != nil {
			unavailable = *rolling.MaxUnavailable
		}
	}
	b := bounds{surge: scaled(surge, wanted, true), unavailable: scaled(unavailable, wanted, false)}
	if b.surge == 0 && b.unavailable == 0 {
		b.unavailable = 1
	}
	b.unavailable = min(b.unavailable, wanted)
	return b
}

// scaled returns a number or a percentage of total; 0 for a value that validation would have
// refused.
func scaled(value intstr.IntOrString, total int32, up bool) int32 {
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, int(total), up)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int32(n)
}

// replicas returns how many pods a Deployment asks for; 1 when it does not say.
func replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// size returns how many pods a ReplicaSet is asked to have.
func size(rs *appsv1.ReplicaSet) int32 {
	if rs == nil || rs.Spec.Replicas == nil {
		return 0
	}
	return *rs.Spec.Replicas
}

func sum(sets []*appsv1.ReplicaSet, of func(*appsv1.ReplicaSet) int32) int32 {
	var total int32
	for _, rs := range sets {
		if rs != nil {
			total += of(rs)
		}
	}
	return total
}

func available(rs *appsv1.ReplicaSet) int32 { return rs.Status.AvailableReplicas }

// active returns the ReplicaSets that are asked to have pods.
func active(sets []*appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	var found []*appsv1.ReplicaSet
	for _, rs := range sets {
		if size(rs) > 0 {
			found = append(found, rs)
		}
	}
	return found
}

// newSize returns how large the newest ReplicaSet may be now. all includes it.
func newSize(d *appsv1.Deployment, all []*appsv1.ReplicaSet, newest *appsv1.ReplicaSet) int32 {
	wanted := replicas(d)
	if d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return wanted
	}
	room := wanted + boundsOf(d).surge - sum(all, size)
	if room <= 0 {
		return size(newest)
	}
	return size(newest) + min(room, wanted-size(newest))
}

// byCreation sorts the oldest first.
func byCreation(a, b *appsv1.ReplicaSet) int {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	}
	return cmp.Compare(a.Name, b.Name)
}

// proportions distributes change pods, more or fewer, among ReplicaSets in proportion to their
// sizes, and returns the new size of each. The rounding remainder goes to the largest. Among
// several equally large, it goes to the newest when pods are added, and to the oldest when pods are
// removed (Kubernetes, deploymentutil.GetReplicaSetProportion). Every ReplicaSet in all must have
// pods.
func proportions(d *appsv1.Deployment, all []*appsv1.ReplicaSet, change int32) map[*appsv1.ReplicaSet]int32 {
	sorted := slices.Clone(all)
	slices.SortFunc(sorted, func(a, b *appsv1.ReplicaSet) int {
		age := byCreation(a, b)
		if change > 0 {
			age = -age
		}
		return cmp.Or(cmp.Compare(size(b), size(a)), age)
	})
	sizes := make(map[*appsv1.ReplicaSet]int32, len(sorted))
	var shared int32
	for _, rs := range sorted {
		share := int32(0)
		if left := change - shared; left > 0 {
			share = min(fraction(d, rs), left)
		} else if left < 0 {
			share = max(fraction(d, rs), left)
		}
		shared += share
		sizes[rs] = size(rs) + share
	}
	if len(sorted) > 0 && change != 0 {
		largest := sorted[0]
		sizes[largest] = max(sizes[largest]+change-shared, 0)
	}
	return sizes
}

// fraction returns by how many pods a ReplicaSet would grow (or shrink, when negative) if it kept
// its share of the Deployment at the largest size now allowed.
func fraction(d *appsv1.Deployment, rs *appsv1.ReplicaSet) int32 {
	wanted := replicas(d)
	if wanted == 0 {
		return -size(rs)
	}
	before, known := intAnnotation(rs, maxReplicasAnnotation)
	if !known || before == 0 {
		// Without the annotation, the best guess is what the Deployment last had.
		before = d.Status.Replicas
	}
	if before == 0 {
		return 0
	}
	now := float64(wanted) + float64(boundsOf(d).surge)
	return int32(math.Round(float64(size(rs))*now/float64(before))) - size(rs)
}
