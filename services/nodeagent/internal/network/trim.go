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
	return errors.Join(
		informer.For[*corev1.Service](factory).SetTransform(trimmed[*corev1.Service]),
		informer.For[*discoveryv1.EndpointSlice](factory).SetTransform(trimmed[*discoveryv1.EndpointSlice]),
	)
}

// trimmed drops who manages which fields, and what kubectl has last applied, from an object.
func trimmed[T informer.Object](object T) (T, error) {
	object.SetManagedFields(nil)
	delete(object.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	return object, nil
}
