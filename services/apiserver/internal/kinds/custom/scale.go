package custom

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// replicasOf returns how the scale subresource reads and changes the objects of a version.
func replicasOf(scale *apiextensionsv1.CustomResourceSubresourceScale) *kinds.Replicas {
	path := fieldsOf(scale.SpecReplicasPath)
	return &kinds.Replicas{
		Path: path,
		Scale: func(obj scheme.Object) (kinds.Scale, error) {
			u := content(obj)
			wanted, _, err := unstructured.NestedInt64(u.Object, path...)
			if err != nil {
				return kinds.Scale{}, err
			}
			present, _, err := unstructured.NestedInt64(u.Object, fieldsOf(scale.StatusReplicasPath)...)
			if err != nil {
				return kinds.Scale{}, err
			}
			found := kinds.Scale{Wanted: int32(wanted), Present: int32(present), Selector: labels.Nothing()} //nolint:gosec // Validation bounds both.
			if scale.LabelSelectorPath == nil {
				return found, nil
			}
			text, _, err := unstructured.NestedString(u.Object, fieldsOf(*scale.LabelSelectorPath)...)
			if err != nil {
				return kinds.Scale{}, err
			}
			if found.Selector, err = labels.Parse(text); err != nil {
				return kinds.Scale{}, fmt.Errorf("reading the selector of %s: %w", obj.GetName(), err)
			}
			return found, nil
		},
		Set: func(obj scheme.Object, wanted int32) {
			// An object in which a field of the path is no object is not scaled, as its validation says.
			_ = unstructured.SetNestedField(content(obj).Object, int64(wanted), path...)
		},
	}
}
