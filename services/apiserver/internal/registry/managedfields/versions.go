package managedfields

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/quantity"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Conversion converts a kind to the stored kind and back. Nil functions mean that it is the same
// kind.
type Conversion struct {
	ToStored, FromStored kinds.Conversion
}

// versions converts objects for the library, which reads the fields of an owner in the version in
// which the owner wrote.
type versions struct {
	table      *scheme.Table
	conversion func(kind *scheme.Kind) Conversion
}

// ConvertToVersion returns obj in another version. Kubernetes' internal version matches any version
// here: an object is returned in its own, with its Go type.
func (v *versions) ConvertToVersion(obj runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	to, ok := target.(schema.GroupVersion)
	if !ok {
		return nil, fmt.Errorf("converting a %T: the target is not a version but a %T", obj, target)
	}
	obj, err := v.structured(obj)
	if err != nil {
		return nil, err
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if to.Version == runtime.APIVersionInternal || gvk.GroupVersion() == to {
		return obj, nil
	}
	from := v.table.Kind(gvk)
	object, ok := obj.(scheme.Object)
	if from == nil || !ok {
		return nil, runtime.NewNotRegisteredErrForTarget("the served kinds", nil, to)
	}
	for _, kind := range v.table.Kinds() {
		if kind.GroupVersion() != to || kind.Storage != from.Storage {
			continue
		}
		if object, err = v.conversion(from).ToStored.One(object); err != nil {
			return nil, err
		}
		if object, err = v.conversion(kind).FromStored.One(object); err != nil {
			return nil, err
		}
		object.GetObjectKind().SetGroupVersionKind(kind.GroupVersionKind)
		return object, nil
	}
	return nil, runtime.NewNotRegisteredErrForKind("the served kinds", to.WithKind(gvk.Kind))
}

// structured returns an object with its Go type.
func (v *versions) structured(obj runtime.Object) (runtime.Object, error) {
	loose, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return obj, nil
	}
	gvk := loose.GroupVersionKind()
	if kind := v.table.Kind(gvk); kind != nil && kind.Custom {
		return obj, nil
	}
	typed, err := v.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := bounded(loose.Object, typed); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", gvk.Kind, err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(loose.Object, typed); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", gvk.Kind, err)
	}
	typed.GetObjectKind().SetGroupVersionKind(gvk)
	return typed, nil
}

// bounded returns an error if a field of an object would be a costly quantity, or cannot be read. typed is an empty object of
// its type.
func bounded(fields map[string]any, typed runtime.Object) error {
	return quantity.Fields(fields, func(fields map[string]any) error {
		return runtime.DefaultUnstructuredConverter.FromUnstructured(fields, quantity.Empty(typed))
	})
}

// costly returns an error of the API if what a writer wants has a costly quantity. Other errors are found later.
func (v *versions) costly(wanted *unstructured.Unstructured) error {
	gvk := wanted.GroupVersionKind()
	if kind := v.table.Kind(gvk); kind != nil && kind.Custom {
		return nil
	}
	typed, err := v.New(gvk)
	if err != nil {
		return nil //nolint:nilerr // The library words it.
	}
	if costly := (*quantity.CostlyError)(nil); errors.As(bounded(wanted.Object, typed), &costly) {
		return apierrors.NewBadRequest(costly.Error())
	}
	return nil
}

// New returns an empty object.
func (v *versions) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if kind := v.table.Kind(gvk); kind != nil {
		return kind.New(), nil
	}
	obj, err := v.table.Scheme().New(gvk)
	if err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}

// Default does nothing: the caller of Apply applies the defaults, as for every write.
func (v *versions) Default(runtime.Object) {}

// Convert is not called by the library.
func (v *versions) Convert(_, _, _ any) error {
	return errors.New("converting into a given object is not supported")
}

// ConvertFieldLabel is not called by the library.
func (v *versions) ConvertFieldLabel(gvk schema.GroupVersionKind, label, _ string) (string, string, error) {
	return "", "", fmt.Errorf("converting the field label %s of %s is not supported", label, gvk)
}
