package managedfields

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/garboard/garboard/libs/scheme"
)

// Scaled is a workload's scale during a change: the owner of a Scale's replicas also owns the
// workload's.
type Scaled struct {
	owners  *Owners
	handler *managedfields.ScaleHandler
	kind    schema.GroupVersionKind
	scale   scheme.Object
}

// Scale begins a change of a workload's scale, which has its group, version and kind set. path is
// where the workload has its wanted replicas. Scale does not modify the workload.
func (o *Owners) Scale(kind *scheme.Kind, workload, scale scheme.Object, path []string) (*Scaled, error) {
	handler := managedfields.NewScaleHandler(workload.GetManagedFields(), kind.GroupVersion(), o.replicas(kind, path))
	entries, err := handler.ToSubresource()
	if err != nil {
		return nil, fmt.Errorf("reading who owns the replicas of %s: %w", workload.GetName(), err)
	}
	copied, err := copyOf(scale)
	if err != nil {
		return nil, err
	}
	copied.SetManagedFields(entries)
	return &Scaled{owners: o, handler: handler, kind: scale.GetObjectKind().GroupVersionKind(), scale: copied}, nil
}

// replicas returns where each version of a workload has its wanted replicas; nil for one without. path is
// that of the version that is written. The owners of versions that are not served are forgotten.
func (o *Owners) replicas(kind *scheme.Kind, path []string) managedfields.ResourcePathMappings {
	all := managedfields.ResourcePathMappings{}
	for _, other := range o.table.Kinds() {
		if other.Storage != kind.Storage {
			continue
		}
		var replicas fieldpath.Path
		if definition := o.definition(other); definition != nil && definition.Replicas != nil {
			replicas = pathOf(definition.Replicas.Path)
		}
		all[other.GroupVersion().String()] = replicas
	}
	all[kind.GroupVersion().String()] = pathOf(path)
	return all
}

func pathOf(fields []string) fieldpath.Path {
	path := fieldpath.Path{}
	for _, field := range fields {
		path = append(path, name(field))
	}
	return path
}

// Update returns the owners of the workload's fields after writer replaces its scale by wanted.
func (s *Scaled) Update(wanted scheme.Object, writer string) ([]metav1.ManagedFieldsEntry, error) {
	wanted, err := copyOf(wanted)
	if err != nil {
		return nil, err
	}
	wanted.GetObjectKind().SetGroupVersionKind(s.kind)
	if err := s.owners.update(s.kind, "scale", s.scale, wanted, writer); err != nil {
		return nil, err
	}
	return s.parent(wanted)
}

// Apply returns the scale merged with what writer wants, and the workload's new owners.
func (s *Scaled) Apply(wanted *unstructured.Unstructured, writer string, force bool) (scheme.Object, []metav1.ManagedFieldsEntry, error) {
	applied, err := s.owners.apply(s.kind, "scale", s.scale, wanted, writer, force)
	if err != nil {
		return nil, nil, err
	}
	scale, ok := applied.(scheme.Object)
	if !ok {
		return nil, nil, apierrors.NewInternalError(fmt.Errorf("applying produced a %T", applied))
	}
	entries, err := s.parent(scale)
	return scale, entries, err
}

func (s *Scaled) parent(scale scheme.Object) ([]metav1.ManagedFieldsEntry, error) {
	entries, err := s.handler.ToParent(scale.GetManagedFields())
	if err != nil {
		return nil, fmt.Errorf("handing over the replicas of %s: %w", scale.GetName(), err)
	}
	return entries, nil
}

func copyOf(obj scheme.Object) (scheme.Object, error) {
	copied, ok := obj.DeepCopyObject().(scheme.Object)
	if !ok {
		return nil, fmt.Errorf("copying a %T: the copy has no metadata", obj)
	}
	return copied, nil
}
