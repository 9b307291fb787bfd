package network

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/libs/informer"
)

// trim has the factory keep Services and EndpointSlices without what no part reads: a cluster may have tens of
// thousands, and every node has all of them.
func trim(factory *informer.Factory) error {
	return errors.Join(trimAll[*corev1.Service](factory), trimAll[*discoveryv1.EndpointSlice](factory))
}

func trimAll[T informer.Object](factory *informer.Factory) error {
	return informer.For[T](factory).SetTransform(func(object T) (T, error) {
		drop(object)
		return object, nil
	})
}

// drop drops who manages which fields, and what kubectl has last applied, from an object.
func drop(object informer.Object) {
	object.SetManagedFields(nil)
	delete(object.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
}
