package managedfields

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/garboard/garboard/libs/scheme"
)

func scaleKind() schema.GroupVersionKind { return autoscalingv1.SchemeGroupVersion.WithKind("Scale") }

// Scaled is a workload's scale during a change: the owner of a Scale's replicas also owns the
// workload's.
type Scaled struct {
	owners  *Owners
	handler *managedfields.ScaleHandler
	scale   *autoscalingv1.Scale
}

// Scale begins a change of a workload's scale. It does not modify the workload.
func (o *Owners) Scale(kind *scheme.Kind, workload scheme.Object, scale *autoscalingv1.Scale) (*Scaled, error) {
	version := kind.GroupVersion()
	handler := managedfields.NewScaleHandler(workload.GetManagedFields(), version, managedfields.ResourcePathMappings{
		version.String(): fieldpath.Path{name("spec"), name("replicas")},
	})
	entries, err := handler.ToSubresource()
	if err != nil {
		return nil, fmt.Errorf("reading who owns the replicas of %s: %w", workload.GetName(), err)
	}
	scale = scale.DeepCopy()
	scale.SetManagedFields(entries)
	return &Scaled{owners: o, handler: handler, scale: scale}, nil
}

// Update returns the owners of the workload's fields after writer replaces its scale by wanted.
func (s *Scaled) Update(wanted *autoscalingv1.Scale, writer string) ([]metav1.ManagedFieldsEntry, error) {
	wanted = wanted.DeepCopy()
	wanted.SetGroupVersionKind(scaleKind())
	if err := s.owners.update(scaleKind(), "scale", s.scale, wanted, writer); err != nil {
		return nil, err
	}
	return s.parent(wanted)
}

// Apply returns the scale merged with what writer wants, and the workload's new owners.
func (s *Scaled) Apply(wanted *unstructured.Unstructured, writer string, force bool) (*autoscalingv1.Scale, []metav1.ManagedFieldsEntry, error) {
	applied, err := s.owners.apply(scaleKind(), "scale", s.scale, wanted, writer, force)
	if err != nil {
		return nil, nil, err
	}
	scale, ok := applied.(*autoscalingv1.Scale)
	if !ok {
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("applying produced a %T", applied))
	}
	entries, err := s.parent(scale)
	return scale, entries, err
}

func (s *Scaled) parent(scale *autoscalingv1.Scale) ([]metav1.ManagedFieldsEntry, error) {
	entries, err := s.handler.ToParent(scale.GetManagedFields())
	if err != nil {
		return nil, fmt.Errorf("handing over the replicas of %s: %w", scale.GetName(), err)
	}
	return entries, nil
}
