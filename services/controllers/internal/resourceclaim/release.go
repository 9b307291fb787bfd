package resourceclaim

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	dra "k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/utils/lru"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// maxGone bounds the pods that are known to be gone.
const maxGone = 500

// consumer is what a claim is reserved for.
type consumer = resourcev1.ResourceClaimConsumerReference

// releaser reconciles claims: it ends what pods have left behind.
type releaser struct {
	claims *controller.Objects[*resourcev1.ResourceClaim]
	pods   informer.SharedInformer[*corev1.Pod]
	client client.Resource[*corev1.Pod]
	// gone has the UIDs of pods that are gone. It saves the question whether they are.
	gone *lru.Cache
}

// releases declares the queue of claims.
func releases(d controller.Deps) *controller.Spec {
	r := &releaser{
		claims: controller.For[*resourcev1.ResourceClaim](d), pods: informer.For[*corev1.Pod](d.Informers),
		client: client.Of[*corev1.Pod](d.Client), gone: lru.New(maxGone),
	}
	return &controller.Spec{
		Name: name, Queue: releaseQueue, Resource: "resourceclaims", Workers: workers, For: r.claims,
		Watches: []controller.Watch{controller.On(r.pods, r.podChanged)}, Reconcile: r.reconcile,
	}
}

// podChanged asks for reconciles of the claims of a pod that needs them no more.
func (r *releaser) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if old != nil && (now == nil || now.UID != old.UID) && usesClaims(old) {
		r.gone.Add(old.UID, nil)
		add(q, old)
	}
	if now != nil && usesClaims(now) && neverRuns(now) {
		add(q, now)
	}
}

// usesClaims reports whether a pod has claims, those for extended resources included.
func usesClaims(pod *corev1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil
}

// add asks for reconciles of the claims of a pod.
func add(q controller.Queue, pod *corev1.Pod) {
	for claim := range dra.PodClaims(pod) {
		q.AddName(pod.Namespace, claim)
	}
}

// reconcile ends the reservations of pods that need a claim no more. When nobody needs it, it ends its
// allocation and deletes it if it was made for a pod that will not run.
func (r *releaser) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	claim, found := r.claims.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	remaining, err := r.remaining(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	switch protected := slices.Contains(claim.Finalizers, resourcev1.Finalizer); {
	case len(remaining) < len(claim.Status.ReservedFor):
		err = r.release(ctx, claim, remaining, protected && len(remaining) == 0)
	case protected && claim.DeletionTimestamp != nil && len(remaining) == 0:
		err = r.free(ctx, claim)
	}
	if err == nil && len(remaining) == 0 {
		err = r.deleteUnused(ctx, claim)
	}
	return reconcile.Result{}, err
}

// remaining returns the reservations that are not known to be obsolete.
func (r *releaser) remaining(ctx context.Context, claim *resourcev1.ResourceClaim) ([]consumer, error) {
	kept := make([]consumer, 0, len(claim.Status.ReservedFor))
	for _, by := range claim.Status.ReservedFor {
		if by.APIGroup == "" && by.Resource == "pods" {
			needed, err := r.needed(ctx, claim.Namespace, by)
			if err != nil {
				return nil, err
			}
			if !needed {
				continue
			}
		}
		kept = append(kept, by)
	}
	return kept, nil
}

// needed reports whether a reservation is of a pod that exists and may run. A pod that the cache lacks, or
// knows only a predecessor of, may be newer than the cache.
func (r *releaser) needed(ctx context.Context, namespace string, by consumer) (bool, error) {
	if _, gone := r.gone.Get(by.UID); gone {
		return false, nil
	}
	if pod, found := r.pods.Indexer().GetByKey(informer.KeyOf(namespace, by.Name)); found && pod.UID == by.UID {
		return !neverRuns(pod), nil
	}
	pod, err := r.client.Get(ctx, namespace, by.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading pod %s/%s, which has reserved a claim: %w", namespace, by.Name, err)
	}
	return pod.UID == by.UID, nil
}

// release writes the reservations that remain, and ends the allocation with them if free is set.
func (r *releaser) release(ctx context.Context, claim *resourcev1.ResourceClaim, remaining []consumer, free bool) error {
	next := claim.DeepCopy()
	next.Status.ReservedFor = remaining
	if free {
		next.Status.Allocation = nil
	}
	next, err := r.claims.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("removing reservations from claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	if next.Status.Allocation == nil {
		return r.unprotect(ctx, next)
	}
	return nil
}

// free ends the allocation of a claim that is being deleted, and its protection.
func (r *releaser) free(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	next := claim.DeepCopy()
	if next.Status.Allocation != nil {
		next.Status.Allocation = nil
		var err error
		if next, err = r.claims.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("ending the allocation of claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return r.unprotect(ctx, next)
}

// unprotect removes the finalizer of a claim that has no allocation.
func (r *releaser) unprotect(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	at := slices.Index(claim.Finalizers, resourcev1.Finalizer)
	if at < 0 {
		return nil
	}
	claim.Finalizers = slices.Delete(claim.Finalizers, at, at+1)
	if _, err := r.claims.Client.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("removing the finalizer of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// deleteUnused deletes a claim that was made for a pod which has been replaced or will not run. If the pod
// is gone, the garbage collector does so: the cache may not know the pod yet.
func (r *releaser) deleteUnused(ctx context.Context, claim *resourcev1.ResourceClaim) error {
	owner := metav1.GetControllerOfNoCopy(claim)
	if owner == nil || owner.APIVersion != "v1" || owner.Kind != "Pod" || claim.DeletionTimestamp != nil {
		return nil
	}
	pod, found := r.pods.Indexer().GetByKey(informer.KeyOf(claim.Namespace, owner.Name))
	if !found || pod.UID == owner.UID && !neverRuns(pod) {
		return nil
	}
	err := r.claims.Client.Delete(ctx, claim.Namespace, claim.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(claim.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete unused generated claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}
