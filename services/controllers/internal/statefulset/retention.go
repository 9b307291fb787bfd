package statefulset

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// retention decides which of a set and a pod own a claim of the pod. An owner takes the claim with it
// when it is deleted (KEP-1847).
type retention struct {
	set *appsv1.StatefulSet
	pod *corev1.Pod
	// setKind is the kind of the set, podKind that of the pod.
	setKind, podKind schema.GroupVersionKind
	// scaledDown means that the pod's ordinal is no longer one of the set's.
	scaledDown bool
}

// deletes returns when the policy deletes claims: with the set, and when the pod's ordinal goes.
func deletes(set *appsv1.StatefulSet) (withSet, whenScaled bool) {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil {
		return false, false
	}
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return policy.WhenDeleted == remove, policy.WhenScaled == remove
}

// want reports who should own a claim. A claim that goes with the pod must not wait for the set.
func (r retention) want() (bySet, byPod bool) {
	withSet, whenScaled := deletes(r.set)
	byPod = whenScaled && r.scaledDown
	return withSet && !byPod, byPod
}

func names(ref *metav1.OwnerReference, kind schema.GroupVersionKind, name string) bool {
	return ref.APIVersion == kind.GroupVersion().String() && ref.Kind == kind.Kind && ref.Name == name
}

func (r retention) namesUs(ref *metav1.OwnerReference) bool {
	return names(ref, r.setKind, r.set.Name) || names(ref, r.podKind, r.pod.Name)
}

// stale reports whether a claim is owned by an earlier object with this name and kind.
func stale(claim *corev1.PersistentVolumeClaim, kind schema.GroupVersionKind, name string, uid types.UID) bool {
	i := slices.IndexFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return names(&ref, kind, name) })
	return i >= 0 && claim.OwnerReferences[i].UID != uid
}

func owns(claim *corev1.PersistentVolumeClaim, uid types.UID) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool { return ref.UID == uid })
}

// contested reports whether the claim has another controller, while the policy wants claims deleted.
func (r retention) contested(claim *corev1.PersistentVolumeClaim) bool {
	if withSet, whenScaled := deletes(r.set); !withSet && !whenScaled {
		return false
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		switch {
		case names(&ref, r.setKind, r.set.Name):
			return ref.UID != r.set.UID
		case names(&ref, r.podKind, r.pod.Name):
			return ref.UID != r.pod.UID
		default:
			return ref.Controller != nil && *ref.Controller
		}
	})
}

// kept reports whether the claim's owners are as the policy wants them, or should not be touched: an
// owner that is gone means that the garbage collector has the claim, another controller that it has.
func (r retention) kept(claim *corev1.PersistentVolumeClaim) bool {
	if stale(claim, r.setKind, r.set.Name, r.set.UID) || stale(claim, r.podKind, r.pod.Name, r.pod.UID) {
		return true
	}
	ownedBySet, ownedByPod := owns(claim, r.set.UID), owns(claim, r.pod.UID)
	if r.contested(claim) {
		return !ownedBySet && !ownedByPod
	}
	for _, ref := range claim.OwnerReferences {
		if (ref.UID == r.set.UID || ref.UID == r.pod.UID) && (ref.Controller == nil || !*ref.Controller) {
			return false
		}
	}
	bySet, byPod := r.want()
	return ownedBySet == bySet && ownedByPod == byPod
}

// own changes the owners of a claim to what the policy wants. With another controller, neither the set nor
// the pod is an owner.
func (r retention) own(claim *corev1.PersistentVolumeClaim) {
	contested := r.contested(claim)
	refs := slices.DeleteFunc(slices.Clone(claim.OwnerReferences), func(ref metav1.OwnerReference) bool { return r.namesUs(&ref) })
	bySet, byPod := r.want()
	if bySet && !contested {
		refs = owned(refs, *metav1.NewControllerRef(r.set, r.setKind))
	}
	if byPod && !contested {
		refs = owned(refs, *metav1.NewControllerRef(r.pod, r.podKind))
	}
	claim.OwnerReferences = refs
}

// owned adds an owner that is not there yet.
func owned(refs []metav1.OwnerReference, ref metav1.OwnerReference) []metav1.OwnerReference {
	if slices.ContainsFunc(refs, func(other metav1.OwnerReference) bool { return other.UID == ref.UID }) {
		return refs
	}
	return append(refs, ref)
}
