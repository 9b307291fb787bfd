// Package runtimeclass is the plugin RuntimeClass.
package runtimeclass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/tolerations"
)

// Plugin returns the plugin.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Mutate: applyRuntimeClass(objects), Validate: checkRuntimeClass(objects)}
}

// The refusals of RuntimeClass.
var (
	errOtherOverhead = errors.New("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
	errOwnOverhead   = errors.New("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
)

// applyRuntimeClass sets the overhead and the scheduling of a new pod from its RuntimeClass.
// https://kubernetes.io/docs/concepts/containers/runtime-class/
func applyRuntimeClass(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		pod, class, err := runtimeClassOf(ctx, objects, req)
		if err != nil || class == nil {
			return err
		}
		if class.Overhead != nil {
			overhead := class.Overhead.PodFixed.DeepCopy()
			if len(pod.Spec.Overhead) > 0 && !apiequality.Semantic.DeepEqual(overhead, pod.Spec.Overhead) {
				return admission.Forbidden(req, errOtherOverhead)
			}
			pod.Spec.Overhead = overhead
		}
		if class.Scheduling == nil {
			return nil
		}
		scheduling := class.Scheduling.DeepCopy()
		for _, key := range slices.Sorted(maps.Keys(scheduling.NodeSelector)) {
			want := scheduling.NodeSelector[key]
			if given, ok := pod.Spec.NodeSelector[key]; ok && given != want {
				return admission.Forbidden(req, fmt.Errorf("conflict: runtimeClass.scheduling.nodeSelector[%s] = %s; pod.spec.nodeSelector[%s] = %s",
					key, want, key, given))
			}
		}
		if pod.Spec.NodeSelector == nil {
			pod.Spec.NodeSelector = scheduling.NodeSelector
		} else {
			maps.Copy(pod.Spec.NodeSelector, scheduling.NodeSelector)
		}
		pod.Spec.Tolerations = tolerations.Merge(pod.Spec.Tolerations, scheduling.Tolerations)
		return nil
	}
}

// checkRuntimeClass refuses a new pod whose overhead is not that of its RuntimeClass.
func checkRuntimeClass(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		pod, class, err := runtimeClassOf(ctx, objects, req)
		switch {
		case err != nil || pod == nil:
			return err
		case class != nil && class.Overhead != nil:
			if !apiequality.Semantic.DeepEqual(class.Overhead.PodFixed, pod.Spec.Overhead) {
				return admission.Forbidden(req, errOtherOverhead)
			}
		case pod.Spec.Overhead != nil:
			return admission.Forbidden(req, errOwnOverhead)
		}
		return nil
	}
}

// runtimeClassOf returns the pod that a request creates, nil if it creates none, and the pod's
// RuntimeClass, nil if it names none.
func runtimeClassOf(ctx context.Context, objects admission.Objects, req *admission.Request) (*corev1.Pod, *nodev1.RuntimeClass, error) {
	pod, ok := req.Object.(*corev1.Pod)
	if !ok || req.Verb != admission.Create || req.Subresource != "" {
		return nil, nil, nil
	}
	if pod.Spec.RuntimeClassName == nil {
		return pod, nil, nil
	}
	class, err := admission.Get[*nodev1.RuntimeClass](ctx, objects, "", *pod.Spec.RuntimeClassName)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil, admission.Forbidden(req, fmt.Errorf("pod rejected: RuntimeClass %q not found", *pod.Spec.RuntimeClassName))
	case err != nil:
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("reading RuntimeClass %q: %w", *pod.Spec.RuntimeClassName, err))
	}
	return pod, class, nil
}
