package statefulset

import (
	"context"
	"errors"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/contention"
	"github.com/garboard/garboard/services/controllers/internal/controllerref"
)

// tell records the Event about what was done with a pod: Create, Update or Delete.
func (r *reconciler) tell(verb string, set *appsv1.StatefulSet, pod string, err error) {
	if contention.IsSlowed(err) {
		return
	}
	if err != nil {
		r.events.Event(set, corev1.EventTypeWarning, "Failed"+verb, "%s Pod %s in StatefulSet %s failed error: %s", verb, pod, set.Name, err)
		return
	}
	r.events.Event(set, corev1.EventTypeNormal, "Successful"+verb, "%s Pod %s in StatefulSet %s successful", verb, pod, set.Name)
}

// createPod creates the claims of an ordinal that are missing, and then its pod.
func (r *reconciler) createPod(ctx context.Context, set *appsv1.StatefulSet, template *corev1.PodTemplateSpec, revision string,
	ordinal int) (*corev1.Pod, error) {
	owner := controllerref.Reference(set, r.sets.Client.Kind().GroupVersionKind)
	pod := newPod(set, owner, template, revision, ordinal)
	if err := r.createClaims(ctx, set, pod, ordinal); err != nil {
		r.tell("Create", set, pod.Name, err)
		return nil, err
	}
	created, err := r.pods.Client.Create(ctx, pod, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		r.tell("Create", set, pod.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("creating the pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return created, nil
}

func (r *reconciler) deletePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	// The UID spares another pod that has taken the name.
	err := r.pods.Client.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if !apierrors.IsConflict(err) {
		r.tell("Delete", set, pod.Name, err)
	}
	if err != nil {
		return fmt.Errorf("deleting the pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// conform corrects a pod's labels, volumes and claims.
func (r *reconciler) conform(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) error {
	err := r.tryConform(ctx, set, pod, ordinal)
	if !apierrors.IsConflict(err) {
		r.tell("Update", set, pod.Name, err)
	}
	return err
}

func (r *reconciler) tryConform(ctx context.Context, set *appsv1.StatefulSet, cached *corev1.Pod, ordinal int) error {
	if identified(cached) && mounted(set, cached, ordinal) {
		return r.retain(ctx, set, cached, ordinal)
	}
	// The cache does not keep whole pods.
	pod, err := r.pods.Client.Get(ctx, cached.Namespace, cached.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the pod %s/%s: %w", cached.Namespace, cached.Name, err)
	}
	if pod.UID != cached.UID {
		return nil // Its creation is an event of its own.
	}
	identify(set, pod, ordinal)
	if !mounted(set, pod, ordinal) {
		mount(set, pod, ordinal)
		if err := r.createClaims(ctx, set, pod, ordinal); err != nil {
			return err
		}
	}
	if err := r.retain(ctx, set, pod, ordinal); err != nil {
		return err
	}
	if _, err := r.pods.Client.Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating the pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// newClaim returns the claim of an ordinal, from a template of the set.
func newClaim(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) *corev1.PersistentVolumeClaim {
	claim := template.DeepCopy()
	claim.Namespace, claim.Name = set.Namespace, claimName(template.Name, set.Name, ordinal)
	if claim.Labels == nil {
		claim.Labels = map[string]string{}
	}
	if set.Spec.Selector != nil {
		maps.Copy(claim.Labels, set.Spec.Selector.MatchLabels)
	}
	return claim
}

// createClaims creates the claims of a pod that are missing. It is an error if one is being deleted.
func (r *reconciler) createClaims(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) error {
	var faults []error
	for i := range set.Spec.VolumeClaimTemplates {
		claim := newClaim(set, &set.Spec.VolumeClaimTemplates[i], ordinal)
		if existing, found := r.claims.Indexer().GetByKey(informer.KeyOf(claim.Namespace, claim.Name)); found {
			if existing.DeletionTimestamp != nil {
				faults = append(faults, fmt.Errorf("pvc %s is being deleted", claim.Name))
			}
			continue
		}
		if policy := r.retention(set, pod, ordinal); !policy.scaledDown {
			policy.own(claim) // At once, which spares an update.
		}
		_, err := r.claim.Create(ctx, claim, metav1.CreateOptions{})
		switch {
		case err == nil:
			r.events.Event(set, corev1.EventTypeNormal, "SuccessfulCreate", "Create Claim %s Pod %s in StatefulSet %s success", claim.Name, pod.Name, set.Name)
		case !apierrors.IsAlreadyExists(err) && !contention.IsSlowed(err):
			r.events.Event(set, corev1.EventTypeWarning, "FailedCreate", "Create Claim %s for Pod %s in StatefulSet %s failed error: %s", claim.Name, pod.Name, set.Name, err)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("failed to create PVC %s: %w", claim.Name, err))
		}
	}
	return errors.Join(faults...)
}

func (r *reconciler) retention(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) retention {
	return retention{
		set: set, pod: pod, setKind: r.sets.Client.Kind().GroupVersionKind, podKind: r.pods.Client.Kind().GroupVersionKind,
		scaledDown: !inRange(set, ordinal),
	}
}

// claimsOf returns the claims of an ordinal that exist.
func (r *reconciler) claimsOf(set *appsv1.StatefulSet, ordinal int) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for i := range set.Spec.VolumeClaimTemplates {
		name := claimName(set.Spec.VolumeClaimTemplates[i].Name, set.Name, ordinal)
		if claim, found := r.claims.Indexer().GetByKey(informer.KeyOf(set.Namespace, name)); found {
			claims = append(claims, claim)
		}
	}
	return claims
}

// claimsKept reports whether the claims of a pod are owned as the set's policy wants.
func (r *reconciler) claimsKept(set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) bool {
	policy := r.retention(set, pod, ordinal)
	for _, claim := range r.claimsOf(set, ordinal) {
		if !policy.kept(claim) {
			return false
		}
	}
	return true
}

// retain makes the claims of a pod owned as the set's policy wants.
func (r *reconciler) retain(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, ordinal int) error {
	policy := r.retention(set, pod, ordinal)
	for _, claim := range r.claimsOf(set, ordinal) {
		if policy.kept(claim) {
			continue
		}
		if policy.contested(claim) {
			r.events.Event(set, corev1.EventTypeWarning, "ConflictingController", "PersistentVolumeClaim %s has a conflicting OwnerReference "+
				"that acts as a manging controller, the retention policy is ignored for this claim", claim.Name)
		}
		claim = claim.DeepCopy()
		policy.own(claim)
		if _, err := r.claim.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", claim.Name, err)
		}
	}
	return nil
}

// claimStale reports whether a claim of an ordinal goes with an earlier pod of that name. A new pod must
// not use it.
func (r *reconciler) claimStale(set *appsv1.StatefulSet, ordinal int) bool {
	if _, whenScaled := deletes(set); !whenScaled {
		return false
	}
	for _, claim := range r.claimsOf(set, ordinal) {
		if stale(claim, r.pods.Client.Kind().GroupVersionKind, podName(set, ordinal), "") {
			return true
		}
	}
	return false
}
