package scale

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// Get returns the scale of a workload: its wanted and present replicas.
func Get(ctx context.Context, workloads *registry.Resource, namespace, name string) (*autoscalingv1.Scale, error) {
	obj, err := workloads.Get(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return scaleOf(workloads, obj)
}

// Update sets the wanted replicas of a workload to those in the scale that change returns. It
// returns a conflict if that scale's resourceVersion or UID requires one.
func Update(ctx context.Context, workloads *registry.Resource, namespace, name string,
	change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error), opts registry.UpdateOptions,
) (*autoscalingv1.Scale, error) {
	return write(ctx, workloads, namespace, name, opts, func(now *autoscalingv1.Scale, owners *managedfields.Scaled) (scheme.Object, owned, error) {
		wanted, err := change(now)
		if err != nil {
			return nil, nil, err
		}
		entries, err := owners.Update(wanted, opts.FieldManager)
		return wanted, entries, err
	})
}

// Apply merges what the field manager of opts wants into the scale of a workload:
// the owner of a scale's replicas also owns those of the workload.
func Apply(ctx context.Context, workloads *registry.Resource, namespace, name string,
	wanted *unstructured.Unstructured, opts registry.UpdateOptions,
) (*autoscalingv1.Scale, error) {
	return write(ctx, workloads, namespace, name, opts, func(_ *autoscalingv1.Scale, owners *managedfields.Scaled) (scheme.Object, owned, error) {
		return owners.Apply(wanted, opts.FieldManager, opts.Force)
	})
}

// owned are the owners of an object's fields.
type owned = []metav1.ManagedFieldsEntry

// write sets the wanted replicas of a workload, and its owners, to what change returns.
func write(ctx context.Context, workloads *registry.Resource, namespace, name string, opts registry.UpdateOptions,
	change func(now *autoscalingv1.Scale, owners *managedfields.Scaled) (scheme.Object, owned, error),
) (*autoscalingv1.Scale, error) {
	replicas := workloads.Definition().Replicas
	if replicas == nil {
		return nil, apierrors.NewNotFound(workloads.Kind().GroupResource(), name+"/scale")
	}
	updated, err := workloads.Update(ctx, namespace, name, func(current scheme.Object) (scheme.Object, error) {
		now, err := scaleOf(workloads, current)
		if err != nil {
			return nil, err
		}
		owners, err := workloads.Owners().Scale(workloads.Kind(), current, now, replicas.Path)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		changed, entries, err := change(now, owners)
		if err != nil {
			return nil, err
		}
		wanted, ok := changed.(*autoscalingv1.Scale)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("applying produced a %T", changed))
		}
		if err := validateScale(wanted, namespace, name); err != nil {
			return nil, err
		}
		obj, ok := current.DeepCopyObject().(scheme.Object)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("copying a %T: the copy has no metadata", current))
		}
		// The update checks both against the current object.
		obj.SetResourceVersion(wanted.ResourceVersion)
		obj.SetUID(wanted.UID)
		obj.SetManagedFields(entries)
		replicas.Set(obj, wanted.Spec.Replicas)
		return obj, nil
	}, registry.UpdateOptions{DryRun: opts.DryRun, FieldManager: opts.FieldManager, Admitted: admitted(workloads), OwnersGiven: true})
	if err != nil {
		return nil, err
	}
	return scaleOf(workloads, updated)
}

// admitted shows admission plugins the scale of a workload.
func admitted(workloads *registry.Resource) *registry.Admitted {
	return &registry.Admitted{
		Subresource: "scale",
		Show:        func(obj scheme.Object) (scheme.Object, error) { return scaleOf(workloads, obj) },
		Take: func(obj, shown scheme.Object) error {
			changed, ok := shown.(*autoscalingv1.Scale)
			if !ok {
				return apierrors.NewInternalError(fmt.Errorf("admission made a %T of a scale", shown))
			}
			if err := validateScale(changed, obj.GetNamespace(), obj.GetName()); err != nil {
				return err
			}
			workloads.Definition().Replicas.Set(obj, changed.Spec.Replicas)
			return nil
		},
	}
}

func scaleOf(workloads *registry.Resource, obj scheme.Object) (*autoscalingv1.Scale, error) {
	replicas := workloads.Definition().Replicas
	if replicas == nil {
		return nil, apierrors.NewNotFound(workloads.Kind().GroupResource(), obj.GetName()+"/scale")
	}
	found, err := replicas.Scale(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	scale := newScale()
	scale.ObjectMeta = metav1.ObjectMeta{
		Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
		ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
	}
	scale.Spec.Replicas = found.Wanted
	scale.Status = autoscalingv1.ScaleStatus{Replicas: found.Present, Selector: found.Selector.String()}
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
