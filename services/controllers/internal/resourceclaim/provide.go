package resourceclaim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	dra "k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// reconcile creates the claims of a pod, writes their names into its status, and reserves them if the pod
// was put on its node without the scheduler.
func (p *provider) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	pod, found := p.pods.Get(key)
	// A pod that has ended lets its claims go: made anew, they would be deleted again.
	if !found || pod.DeletionTimestamp != nil || neverRuns(pod) {
		return reconcile.Result{}, nil
	}
	var added []corev1.PodResourceClaimStatus
	for i := range pod.Spec.ResourceClaims {
		given := &pod.Spec.ResourceClaims[i]
		made, err := p.provide(ctx, pod, given)
		if err != nil {
			p.events.Event(pod, corev1.EventTypeWarning, "FailedResourceClaimCreation", "PodResourceClaim %s: %v", given.Name, err)
			return reconcile.Result{}, fmt.Errorf("pod %s, PodResourceClaim %s: %w", key, given.Name, err)
		}
		if made != "" {
			added = append(added, corev1.PodResourceClaimStatus{Name: given.Name, ResourceClaimName: &made})
		}
	}
	if len(added) > 0 {
		return reconcile.Result{}, p.report(ctx, pod, added) // The pod's change brings it back for the rest.
	}
	if pod.Spec.NodeName == "" {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, p.reserve(ctx, pod)
}

// report writes the names of claims into a pod's status.
func (p *provider) report(ctx context.Context, pod *corev1.Pod, added []corev1.PodResourceClaimStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID}, "status": map[string]any{"resourceClaimStatuses": added},
	})
	if err != nil {
		return fmt.Errorf("encoding the claims of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	_, err = p.pods.Client.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the claims of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// provide creates the claim that a pod's template asks for, unless it exists, and returns its name if the
// pod's status does not have it; empty if there is nothing to do.
func (p *provider) provide(ctx context.Context, pod *corev1.Pod, given *corev1.PodResourceClaim) (string, error) {
	claimName, ours, err := dra.Name(pod, given)
	switch {
	case errors.Is(err, dra.ErrClaimNotFound):
	case err != nil:
		return "", fmt.Errorf("checking for claim before creating it: %w", err)
	case claimName == nil:
		return "", nil
	case *claimName != "":
		claim, err := p.lookUp(ctx, pod.Namespace, *claimName)
		if err != nil {
			return "", fmt.Errorf("checking claim existence: %w", err)
		}
		if claim != nil && (!ours || dra.IsForPod(pod, claim, false) == nil) {
			return "", nil
		}
	}
	if given.ResourceClaimTemplateName == nil {
		return "", nil
	}
	made, err := p.orphan(pod, given)
	if err != nil || made != "" {
		return made, err
	}
	return p.create(ctx, pod, given)
}

// lookUp returns a claim; nil if there is none. A claim that the cache lacks may be newer than the cache.
func (p *provider) lookUp(ctx context.Context, namespace, name string) (*resourcev1.ResourceClaim, error) {
	if claim, found := p.claims.Indexer().GetByKey(informer.KeyOf(namespace, name)); found {
		return claim, nil
	}
	claim, err := p.claims.Client.Get(ctx, namespace, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ResourceClaim %s/%s: %w", namespace, name, err)
	}
	return claim, nil
}

// orphan returns the name of a claim that was made for a pod whose status does not have it; empty if there
// is none.
func (p *provider) orphan(pod *corev1.Pod, given *corev1.PodResourceClaim) (string, error) {
	claims, err := p.claims.Indexer().ByIndex(ownerIndex, string(pod.UID))
	if err != nil {
		return "", fmt.Errorf("finding ResourceClaim for claim %s in pod %s/%s failed: %w", given.Name, pod.Namespace, pod.Name, err)
	}
	for _, claim := range claims {
		if of, made := claim.Annotations[resourcev1.PodResourceClaimAnnotation]; made && of == given.Name && claim.Namespace == pod.Namespace {
			return claim.Name, nil
		}
	}
	return "", nil
}

// create creates a claim from a template and returns its name.
func (p *provider) create(ctx context.Context, pod *corev1.Pod, given *corev1.PodResourceClaim) (string, error) {
	template, found := p.templates.Indexer().GetByKey(informer.KeyOf(pod.Namespace, *given.ResourceClaimTemplateName))
	if !found {
		missing := apierrors.NewNotFound(resourcev1.Resource("resourceclaimtemplate"), *given.ResourceClaimTemplateName)
		return "", fmt.Errorf("resource claim template %q: %w", *given.ResourceClaimTemplateName, missing)
	}
	annotations := maps.Clone(template.Spec.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[resourcev1.PodResourceClaimAnnotation] = given.Name
	yes := true
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: prefix(pod.Name, given.Name),
			Labels: maps.Clone(template.Spec.Labels), Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &yes}},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
	created, err := p.claims.Client.Create(ctx, claim, metav1.CreateOptions{})
	p.metrics.created(claim, err)
	if err != nil {
		return "", fmt.Errorf("create ResourceClaim : %w", err)
	}
	return created.Name, nil
}

// longestPrefix leaves room for a hyphen and five random characters in a name of 63.
const longestPrefix = 57

// prefix returns the beginning of the name of a claim. Long names of pod and claim are shortened by the same
// factor, so that something of both is left.
func prefix(pod, claim string) string {
	whole := pod + "-" + claim + "-"
	if len(whole) <= longestPrefix {
		return whole
	}
	return pod[:len(pod)*longestPrefix/len(whole)] + "-" + claim[:len(claim)*longestPrefix/len(whole)]
}

// reserve reserves the claims of a pod that have devices.
func (p *provider) reserve(ctx context.Context, pod *corev1.Pod) error {
	for i := range pod.Spec.ResourceClaims {
		claimName, ours, err := dra.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return fmt.Errorf("finding the claims of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		if claimName == nil {
			continue
		}
		claim, found := p.claims.Indexer().GetByKey(informer.KeyOf(pod.Namespace, *claimName))
		if !found {
			return nil
		}
		if ours {
			if err := dra.IsForPod(pod, claim, false); err != nil {
				return fmt.Errorf("reserving the claims of pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
		}
		if !needsReservation(pod, claim) {
			continue
		}
		next := claim.DeepCopy()
		next.Status.ReservedFor = append(next.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{
			Resource: "pods", Name: pod.Name, UID: pod.UID,
		})
		if _, err := p.claims.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("reserve claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
	}
	return nil
}
