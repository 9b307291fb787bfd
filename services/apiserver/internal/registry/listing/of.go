package listing

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

// Of returns objs as the kind's list. The items are shallow copies that share what they point
// to.
func Of(kind *scheme.Kind, objs []scheme.Object) (runtime.Object, error) {
	list := kind.NewList()
	if kind.Custom {
		return customList(list, objs)
	}
	items := make([]runtime.Object, len(objs))
	for i, obj := range objs {
		items[i] = obj
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, fmt.Errorf("building a list of %s: %w", kind.Resource, err)
	}
	return list, nil
}

// customList fills the list of a custom kind. Its items share what objs hold.
func customList(list runtime.Object, objs []scheme.Object) (runtime.Object, error) {
	filled, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return nil, fmt.Errorf("building a list: it is a %T", list)
	}
	filled.Items = make([]unstructured.Unstructured, 0, len(objs))
	for _, obj := range objs {
		item, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("building a list of custom objects: an item is a %T", obj)
		}
		filled.Items = append(filled.Items, *item)
	}
	return filled, nil
}
