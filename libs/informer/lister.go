package informer

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// NewLister returns a Lister that reads an indexer of objects of resource.
func NewLister[T Object](indexer Indexer[T], resource schema.GroupResource) Lister[T] {
	return lister[T]{indexer: indexer, resource: resource}
}

type lister[T Object] struct {
	indexer  Indexer[T]
	resource schema.GroupResource
}

func (l lister[T]) List(selector labels.Selector) ([]T, error) {
	return filter(l.indexer.List(), selector), nil
}

func (l lister[T]) Get(name string) (T, error) { return l.get(name, name) }

func (l lister[T]) Namespace(namespace string) NamespaceLister[T] {
	return namespaceLister[T]{lister: l, namespace: namespace}
}

func (l lister[T]) get(key, name string) (T, error) {
	obj, exists := l.indexer.GetByKey(key)
	if !exists {
		return obj, apierrors.NewNotFound(l.resource, name)
	}
	return obj, nil
}

type namespaceLister[T Object] struct {
	lister    lister[T]
	namespace string
}

func (l namespaceLister[T]) List(selector labels.Selector) ([]T, error) {
	if l.namespace == "" {
		return l.lister.List(selector)
	}
	objects, err := l.lister.indexer.ByIndex(NamespaceIndex, l.namespace)
	if err != nil {
		return nil, err
	}
	return filter(objects, selector), nil
}

func (l namespaceLister[T]) Get(name string) (T, error) {
	return l.lister.get(KeyOf(l.namespace, name), name)
}

// filter keeps, in place, the objects that selector matches.
func filter[T Object](objects []T, selector labels.Selector) []T {
	kept := objects[:0]
	for _, obj := range objects {
		if selects(selector, obj) {
			kept = append(kept, obj)
		}
	}
	clear(objects[len(kept):])
	return kept
}

// selects reports whether selector matches obj; nil matches every object.
func selects(selector labels.Selector, obj Object) bool {
	return selector == nil || selector.Empty() || selector.Matches(labels.Set(obj.GetLabels()))
}
