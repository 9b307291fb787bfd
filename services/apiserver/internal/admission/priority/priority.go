// Package priority is the plugin Priority.
package priority

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Mutate: priority(objects), Validate: checkPriorityClass(objects)}
}

// SystemClasses returns the classes of the plane's own pods, which always exist.
func SystemClasses() []*schedulingv1.PriorityClass {
	class := func(name string, value int32, description string) *schedulingv1.PriorityClass {
		policy := corev1.PreemptLowerPriority
		return &schedulingv1.PriorityClass{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: &policy, Description: description,
		}
	}
	return []*schedulingv1.PriorityClass{
		class("system-node-critical", 2000001000, "Used for system critical pods that must not be moved from their current node."),
		class("system-cluster-critical", 2000000000, "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."),
	}
}

// priority sets the priority of a new pod from its class, or else from the default class. An update
// that omits the values keeps them.
func priority(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		pod, ok := req.Object.(*corev1.Pod)
		if !ok || req.Subresource != "" {
			return nil
		}
		if old, ok := req.Old.(*corev1.Pod); ok && req.Verb == admission.Update {
			if pod.Spec.Priority == nil {
				pod.Spec.Priority = old.Spec.Priority
			}
			if pod.Spec.PreemptionPolicy == nil {
				pod.Spec.PreemptionPolicy = old.Spec.PreemptionPolicy
			}
			return nil
		}
		if req.Verb != admission.Create {
			return nil
		}
		class, err := classOf(ctx, objects, pod)
		switch {
		case apierrors.IsNotFound(err):
			return admission.Forbidden(req, fmt.Errorf("no PriorityClass with name %v was found", pod.Spec.PriorityClassName))
		case err != nil:
			return apierrors.NewInternalError(err)
		}
		pod.Spec.PriorityClassName = class.Name
		value, policy := class.Value, class.PreemptionPolicy
		if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
			return admission.Forbidden(req, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *pod.Spec.Priority, value))
		}
		pod.Spec.Priority = &value
		if policy == nil {
			return nil
		}
		if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != *policy {
			return admission.Forbidden(req, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *pod.Spec.PreemptionPolicy, *policy))
		}
		preemption := *policy
		pod.Spec.PreemptionPolicy = &preemption
		return nil
	}
}

// classOf returns the priority class of a pod: the one that it names, or the default, or one
// without a name and of priority 0. Its error is NotFound if the pod names a class that doesn't
// exist.
func classOf(ctx context.Context, objects admission.Objects, pod *corev1.Pod) (*schedulingv1.PriorityClass, error) {
	name := pod.Spec.PriorityClassName
	if name == "" {
		class, err := defaultPriority(ctx, objects)
		if err != nil {
			return nil, fmt.Errorf("failed to get default priority class: %w", err)
		}
		if class == nil {
			policy := corev1.PreemptLowerPriority
			class = &schedulingv1.PriorityClass{PreemptionPolicy: &policy}
		}
		return class, nil
	}
	class, err := admission.Get[*schedulingv1.PriorityClass](ctx, objects, "", name)
	if err == nil {
		return class, nil
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("failed to get PriorityClass with name %s: %w", name, err)
	}
	for _, own := range SystemClasses() {
		if own.Name == name {
			return own, nil // Valid even before it is stored.
		}
	}
	return nil, err
}

// defaultPriority returns the class that is marked as default, or nil if there is none. If a race
// has created several, it returns the one with the lowest value.
func defaultPriority(ctx context.Context, objects admission.Objects) (*schedulingv1.PriorityClass, error) {
	classes, err := admission.List[*schedulingv1.PriorityClass](ctx, objects, "")
	if err != nil {
		return nil, err
	}
	var found *schedulingv1.PriorityClass
	for _, class := range classes {
		if class.GlobalDefault && (found == nil || class.Value < found.Value) {
			found = class
		}
	}
	return found, nil
}

// checkPriorityClass refuses a second default class.
func checkPriorityClass(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		class, ok := req.Object.(*schedulingv1.PriorityClass)
		if !ok || req.Subresource != "" || !class.GlobalDefault {
			return nil
		}
		present, err := defaultPriority(ctx, objects)
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to get default priority class: %w", err))
		}
		if present == nil || req.Verb == admission.Update && present.Name == class.Name {
			return nil
		}
		return admission.Forbidden(req, fmt.Errorf("PriorityClass %v is already marked as default. Only one default can exist", present.Name))
	}
}
