package registry

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// Scale returns the scale subresource of a workload: its wanted and current replicas.
func (r *Resource) Scale(ctx context.Context, namespace, name string) (*autoscalingv1.Scale, error) {
	obj, err := r.Get(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return r.scaleOf(obj)
}

// UpdateScale sets the wanted replicas of a workload to those in the scale that change returns. It
// returns a conflict if that scale's resourceVersion or UID requires one.
func (r *Resource) UpdateScale(ctx context.Context, namespace, name string, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error), opts UpdateOptions) (*autoscalingv1.Scale, error) {
	return r.changeScale(ctx, namespace, name, func(now *autoscalingv1.Scale, owners *managedfields.Scaled) (*autoscalingv1.Scale, []metav1.ManagedFieldsEntry, error) {
		wanted, err := change(now)
		if err != nil {
			return nil, nil, err
		}
		entries, err := owners.Update(wanted, opts.FieldManager)
		return wanted, entries, err
	}, opts)
}

// ApplyScale merges what the field manager of opts wants into the scale of a workload, like Apply:
// the owner of a scale's replicas also owns those of the workload.
func (r *Resource) ApplyScale(ctx context.Context, namespace, name string, wanted *unstructured.Unstructured, opts UpdateOptions) (*autoscalingv1.Scale, error) {
	return r.changeScale(ctx, namespace, name, func(_ *autoscalingv1.Scale, owners *managedfields.Scaled) (*autoscalingv1.Scale, []metav1.ManagedFieldsEntry, error) {
		return owners.Apply(wanted, opts.FieldManager, opts.Force)
	}, opts)
}

// changeScale sets the wanted replicas of a workload, and its owners, to what change returns.
func (r *Resource) changeScale(ctx context.Context, namespace, name string,
	change func(now *autoscalingv1.Scale, owners *managedfields.Scaled) (*autoscalingv1.Scale, []metav1.ManagedFieldsEntry, error), opts UpdateOptions,
) (*autoscalingv1.Scale, error) {
	if !r.kind.HasSubresource("scale") {
		return nil, apierrors.NewNotFound(r.kind.GroupResource(), name+"/scale")
	}
	updated, err := r.Update(ctx, namespace, name, func(current scheme.Object) (scheme.Object, error) {
		now, err := r.scaleOf(current)
		if err != nil {
			return nil, err
		}
		owners, err := r.registry.owners.Scale(r.kind, current, now)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		wanted, entries, err := change(now, owners)
		if err != nil {
			return nil, err
		}
		if err := validateScale(wanted, namespace, name); err != nil {
			return nil, err
		}
		obj, err := deepCopy(current)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		// The update checks both against the current object.
		obj.SetResourceVersion(wanted.ResourceVersion)
		obj.SetUID(wanted.UID)
		obj.SetManagedFields(entries)
		setReplicas(obj, wanted.Spec.Replicas)
		return obj, nil
	}, UpdateOptions{DryRun: opts.DryRun, FieldManager: opts.FieldManager, admitted: "scale", record: recordGiven})
	if err != nil {
		return nil, err
	}
	return r.scaleOf(updated)
}

func setReplicas(obj scheme.Object, replicas int32) {
	switch o := obj.(type) {
	case *appsv1.Deployment:
		o.Spec.Replicas = &replicas
	case *appsv1.ReplicaSet:
		o.Spec.Replicas = &replicas
	case *appsv1.StatefulSet:
		o.Spec.Replicas = &replicas
	case *corev1.ReplicationController:
		o.Spec.Replicas = &replicas
	}
}

func (r *Resource) scaleOf(obj scheme.Object) (*autoscalingv1.Scale, error) {
	var wanted *int32
	var present int32
	var labels *metav1.LabelSelector
	switch o := obj.(type) {
	case *appsv1.Deployment:
		wanted, present, labels = o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	case *appsv1.ReplicaSet:
		wanted, present, labels = o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	case *appsv1.StatefulSet:
		wanted, present, labels = o.Spec.Replicas, o.Status.Replicas, o.Spec.Selector
	case *corev1.ReplicationController:
		wanted, present, labels = o.Spec.Replicas, o.Status.Replicas, &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
	default:
		return nil, apierrors.NewNotFound(r.kind.GroupResource(), obj.GetName()+"/scale")
	}
	selector, err := metav1.LabelSelectorAsSelector(labels)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("reading the selector of %s: %w", obj.GetName(), err))
	}
	scale := &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: present, Selector: selector.String()},
	}
	if wanted != nil {
		scale.Spec.Replicas = *wanted
	}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	return scale, nil
}

func validateScale(scale *autoscalingv1.Scale, namespace, name string) error {
	if scale.Name != "" && scale.Name != name {
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", scale.Name, name))
	}
	if scale.Namespace != "" && scale.Namespace != namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object (%s) does not match the namespace on the URL (%s)", scale.Namespace, namespace))
	}
	if scale.Spec.Replicas < 0 {
		return apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), name, field.ErrorList{
			field.Invalid(field.NewPath("spec", "replicas"), scale.Spec.Replicas, "must be greater than or equal to 0"),
		})
	}
	return nil
}
