package client

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
)

func listMeta(list runtime.Object) (metav1.ListInterface, error) {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of a %T: %w", list, err)
	}
	return m, nil
}

// listItems returns pointers into the list's own items: each caller owns its list.
func listItems[T scheme.Object](list runtime.Object) ([]T, error) {
	var items []T
	err := meta.EachListItem(list, func(obj runtime.Object) error {
		item, ok := obj.(T)
		if !ok {
			return fmt.Errorf("reading a %T: an item is a %T", list, obj)
		}
		items = append(items, item)
		return nil
	})
	return items, err
}
