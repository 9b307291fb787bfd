package disruption

import (
	"context"
	"fmt"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
)

// expectedPods returns how many pods a budget expects and how many of them must be healthy.
// unmanaged names the pods that have no controller, whose expected number is unknown.
func (r *reconciler) expectedPods(ctx context.Context, budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod) (
	expected, desired int32, unmanaged []string, err error) {
	switch most, least := budget.Spec.MaxUnavailable, budget.Spec.MinAvailable; {
	case most != nil:
		if expected, unmanaged, err = r.scaleOf(ctx, pods); err != nil {
			return 0, 0, nil, err
		}
		unavailable, err := intstr.GetScaledValueFromIntOrPercent(most, int(expected), true)
		if err != nil {
			return 0, 0, nil, err
		}
		return expected, int32(max(int(expected)-unavailable, 0)), unmanaged, nil
	case least != nil && least.Type == intstr.Int:
		return int32(len(pods)), least.IntVal, nil, nil
	case least != nil:
		if expected, unmanaged, err = r.scaleOf(ctx, pods); err != nil {
			return 0, 0, nil, err
		}
		available, err := intstr.GetScaledValueFromIntOrPercent(least, int(expected), true)
		if err != nil {
			return 0, 0, nil, err
		}
		return expected, int32(available), unmanaged, nil
	}
	return 0, 0, nil, nil
}

// scaleOf sums the desired replicas of the controllers of pods, each controller once.
func (r *reconciler) scaleOf(ctx context.Context, pods []*corev1.Pod) (scale int32, unmanaged []string, err error) {
	known := map[types.UID]bool{}
	counted := map[types.UID]bool{}
	for _, pod := range pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			unmanaged = append(unmanaged, pod.Name)
			continue
		}
		if known[ref.UID] {
			continue
		}
		uid, replicas, err := r.controllerScale(ctx, ref, pod.Namespace)
		if err != nil {
			return 0, nil, err
		}
		if uid == "" {
			return 0, nil, fmt.Errorf("found no controllers for pod %q", pod.Name)
		}
		known[ref.UID] = true
		// Each ReplicaSet of a Deployment leads to the same Deployment.
		if !counted[uid] {
			counted[uid] = true
			scale += replicas
		}
	}
	return scale, unmanaged, nil
}

// controllerScale finds the topmost controller above ref that has a scale. It returns that
// controller's UID and desired replicas; an empty UID if there is none.
func (r *reconciler) controllerScale(ctx context.Context, ref *metav1.OwnerReference, namespace string) (types.UID, int32, error) {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return "", 0, err
	}
	if is(ref, version, "ReplicaSet") {
		if uid, replicas := r.replicaSetScale(ref, namespace); uid != "" {
			return uid, replicas, nil
		}
	}
	return r.readScale(ctx, ref, version, namespace)
}

// is reports whether ref refers to a kind of the group apps, or of the group that held it before.
func is(ref *metav1.OwnerReference, version schema.GroupVersion, kind string) bool {
	return ref.Kind == kind && slices.Contains([]string{"apps", "extensions"}, version.Group)
}

// replicaSetScale finds the scale of a ReplicaSet, or of the Deployment that controls it, in the
// caches.
func (r *reconciler) replicaSetScale(ref *metav1.OwnerReference, namespace string) (types.UID, int32) {
	set, found := r.replicaSets.Indexer().GetByKey(informer.KeyOf(namespace, ref.Name))
	if !found || set.UID != ref.UID {
		return "", 0
	}
	owner := metav1.GetControllerOfNoCopy(set)
	if owner == nil || owner.Kind != "Deployment" {
		return set.UID, replicas(set.Spec.Replicas)
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil || !is(owner, version, "Deployment") {
		return "", 0
	}
	deployment, found := r.deployments.Indexer().GetByKey(informer.KeyOf(namespace, owner.Name))
	if !found || deployment.UID != owner.UID {
		return "", 0
	}
	return deployment.UID, replicas(deployment.Spec.Replicas)
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

// readScale reads the scale subresource of the object that ref names from the API.
func (r *reconciler) readScale(ctx context.Context, ref *metav1.OwnerReference, version schema.GroupVersion,
	namespace string) (types.UID, int32, error) {
	kind := r.client.Table().Kind(version.WithKind(ref.Kind))
	if kind == nil {
		return "", 0, &apimeta.NoKindMatchError{
			GroupKind: schema.GroupKind{Group: version.Group, Kind: ref.Kind}, SearchedVersions: []string{version.Version},
		}
	}
	if !kind.HasSubresource("scale") {
		return "", 0, fmt.Errorf("%s does not implement the scale subresource", kind.GroupResource())
	}
	scale := &autoscalingv1.Scale{}
	err := r.client.Do(ctx, client.Call{
		Verb: "get", Kind: kind, Namespace: namespace, Name: ref.Name, Subresource: "scale", Options: &metav1.GetOptions{},
	}, scale)
	switch {
	case apierrors.IsNotFound(err):
		return "", 0, nil
	case err != nil:
		return "", 0, fmt.Errorf("reading the scale of %s %s/%s: %w", kind.GroupResource(), namespace, ref.Name, err)
	case scale.UID != ref.UID:
		return "", 0, nil
	}
	return scale.UID, scale.Spec.Replicas, nil
}
