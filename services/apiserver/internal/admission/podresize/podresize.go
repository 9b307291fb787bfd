// Package podresize is the plugin PodResizeValidator.
package podresize

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// The causes of refusals.
const (
	reasonNodeCapacity        metav1.CauseType = "NodeCapacity"
	reasonUnsupportedPlatform metav1.CauseType = "UnsupportedPlatform"
)

// Plugin returns the plugin. It refuses to resize a pod beyond the resources of its node, or on a node
// that doesn't run Linux.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Validate: func(ctx context.Context, req *admission.Request) error {
		pod, ok := req.Object.(*corev1.Pod)
		old, had := req.Old.(*corev1.Pod)
		if !ok || !had || req.Verb != admission.Update || req.Subresource != "resize" {
			return nil
		}
		if pod.Spec.NodeName == "" || pod.Generation == old.Generation {
			return nil
		}
		node, err := admission.Get[*corev1.Node](ctx, objects, "", pod.Spec.NodeName)
		switch {
		case apierrors.IsNotFound(err):
			return admission.Forbidden(req, fmt.Errorf("node %q not found", pod.Spec.NodeName))
		case err != nil:
			return admission.Forbidden(req, fmt.Errorf("failed to get node %q: %w", pod.Spec.NodeName, err))
		}
		if os, ok := node.Labels[corev1.LabelOSStable]; ok && os != "linux" {
			return refusal(req, fmt.Errorf("pod resize is only supported on linux nodes, node %q is %q", node.Name, os), reasonUnsupportedPlatform)
		}
		if err := fits(pod, node.Status.Allocatable); err != nil {
			return refusal(req, err, reasonNodeCapacity)
		}
		return nil
	}}
}

func refusal(req *admission.Request, err error, cause metav1.CauseType) error {
	refused := admission.Forbidden(req, err)
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause})
	return refused
}

// fits returns an error unless an otherwise empty node could run the pod.
func fits(pod *corev1.Pod, allocatable corev1.ResourceList) error {
	requests := resource.PodRequests(pod, resource.PodResourcesOptions{})
	var lacking []string
	if is, most := requests.Cpu(), allocatable.Cpu(); is.Cmp(*most) > 0 {
		lacking = append(lacking, fmt.Sprintf("cpu, requested: %d, allocatable: %d", is.MilliValue(), most.MilliValue()))
	}
	if is, most := requests.Memory(), allocatable.Memory(); is.Cmp(*most) > 0 {
		lacking = append(lacking, fmt.Sprintf("memory, requested: %d, allocatable: %d", is.Value(), most.Value()))
	}
	if len(lacking) > 0 {
		return fmt.Errorf("node didn't have enough allocatable resources: %s", strings.Join(lacking, "; "))
	}
	return nil
}
