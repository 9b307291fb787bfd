package conversion

import (
	"errors"
	"fmt"
	"maps"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// accept returns an error unless an object is another, in a version.
func accept(u, original *unstructured.Unstructured, version schema.GroupVersion) error {
	if got := u.GroupVersionKind().GroupVersion(); got != version {
		return fmt.Errorf("invalid groupVersion (expected %v, received %v)", version, got)
	}
	if want, got := original.GetKind(), u.GetKind(); want != got {
		return fmt.Errorf("invalid kind (expected %v, received %v)", want, got)
	}
	if want, got := original.GetName(), u.GetName(); want != got {
		return fmt.Errorf("must have the same name: %v != %v", want, got)
	}
	if want, got := original.GetNamespace(), u.GetNamespace(); want != got {
		return fmt.Errorf("must have the same namespace: %v != %v", want, got)
	}
	if want, got := original.GetUID(), u.GetUID(); want != got {
		return fmt.Errorf("must have the same UID: %v != %v", want, got)
	}
	return nil
}

// restoreMetadata gives an object the metadata of the original, but for its own labels and annotations: a
// webhook can change no others.
func restoreMetadata(u, original *unstructured.Unstructured) error {
	found, ok := u.Object["metadata"]
	if !ok {
		return errors.New("missing metadata in converted object")
	}
	own, ok := found.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", found)
	}
	restored := map[string]any{}
	if was, ok := original.Object["metadata"]; ok {
		if restored, ok = runtime.DeepCopyJSONValue(was).(map[string]any); !ok {
			return fmt.Errorf("invalid metadata of type %T in input object", was)
		}
	}
	for name, validate := range map[string]func(map[string]string, *field.Path) field.ErrorList{
		"labels": metav1validation.ValidateLabels, "annotations": apivalidation.ValidateAnnotations,
	} {
		if err := takeStrings(restored, own, name, validate); err != nil {
			return err
		}
	}
	u.Object["metadata"] = restored
	return nil
}

// takeStrings gives metadata the labels or annotations that the webhook returned. They are validated if they
// changed, so that old ones that were valid once stay.
func takeStrings(restored, own map[string]any, name string, validate func(map[string]string, *field.Path) field.ErrorList) error {
	value, ok := own[name]
	if !ok || value == nil {
		delete(restored, name)
		return nil
	}
	now, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, value)
	}
	was, ok := restored[name].(map[string]any)
	if !ok && restored[name] != nil {
		return fmt.Errorf("invalid metadata.%s of type %T in original object", name, restored[name])
	}
	texts := make(map[string]string, len(now))
	for key, value := range now {
		if texts[key], ok = value.(string); !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, value)
		}
	}
	if !maps.Equal(was, now) {
		path := name
		if name == "annotations" {
			path = "annotation" // The text is Kubernetes'.
		}
		if errs := validate(texts, field.NewPath("metadata", path)); len(errs) > 0 {
			return errs.ToAggregate()
		}
	}
	restored[name] = now
	return nil
}
