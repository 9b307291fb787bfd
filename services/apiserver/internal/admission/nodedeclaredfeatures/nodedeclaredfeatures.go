// Package nodedeclaredfeatures is the plugin NodeDeclaredFeatureValidator.
package nodedeclaredfeatures

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin. It refuses to change a pod on a node so that it needs a feature that the
// node doesn't declare. release is Kubernetes' version: a feature is needed only up to a version.
// ResourceSlices aren't checked, because the feature gate DRANodeAllocatableResources is off.
func Plugin(objects admission.Objects, release *version.Version) admission.Plugin {
	return admission.Plugin{Validate: func(ctx context.Context, req *admission.Request) error {
		pod, ok := req.Object.(*corev1.Pod)
		old, had := req.Old.(*corev1.Pod)
		if !ok || !had || req.Verb != admission.Update || req.Subresource != "" && req.Subresource != "resize" {
			return nil
		}
		if pod.Spec.NodeName == "" || pod.Generation == old.Generation {
			return nil
		}
		return check(ctx, objects, release, req, pod, old)
	}}
}

func check(ctx context.Context, objects admission.Objects, release *version.Version, req *admission.Request, pod, old *corev1.Pod) error {
	features := nodedeclaredfeatures.DefaultFramework
	needed, err := features.InferForPodUpdate(
		&nodedeclaredfeatures.PodInfo{Spec: &old.Spec, Status: &old.Status}, &nodedeclaredfeatures.PodInfo{Spec: &pod.Spec, Status: &pod.Status}, release)
	if err != nil {
		return admission.Forbidden(req, fmt.Errorf("failed to infer pod capability requirements: %w", err))
	}
	if needed.IsEmpty() {
		return nil
	}
	node, err := admission.Get[*corev1.Node](ctx, objects, "", pod.Spec.NodeName)
	switch {
	case apierrors.IsNotFound(err):
		return admission.Forbidden(req, fmt.Errorf("node %q not found", pod.Spec.NodeName))
	case err != nil:
		return admission.Forbidden(req, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err))
	}
	match, err := features.MatchNode(needed, node)
	if err != nil {
		return admission.Forbidden(req, fmt.Errorf("failed to match pod requirements against node %q: %w", node.Name, err))
	}
	if !match.IsMatch {
		return admission.Forbidden(req, fmt.Errorf("pod update requires features %s which are not available on node %q",
			strings.Join(match.UnsatisfiedRequirements, ", "), node.Name))
	}
	return nil
}
