package dns

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/libs/informer"
)

func (s *Server) serviceHandler() informer.ResourceEventHandlerFuncs[*corev1.Service] {
	return informer.ResourceEventHandlerFuncs[*corev1.Service]{
		AddFunc:    func(service *corev1.Service, _ bool) { s.zone.SetService(service) },
		UpdateFunc: func(_, service *corev1.Service) { s.zone.SetService(service) },
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Service]) { s.zone.DeleteService(gone.GetObjectName()) },
	}
}

func (s *Server) sliceHandler() informer.ResourceEventHandlerFuncs[*discoveryv1.EndpointSlice] {
	return informer.ResourceEventHandlerFuncs[*discoveryv1.EndpointSlice]{
		AddFunc: func(slice *discoveryv1.EndpointSlice, initial bool) {
			if s.zone.SetSlice(slice) && !initial {
				s.observeProgramming(slice)
			}
		},
		UpdateFunc: func(old, slice *discoveryv1.EndpointSlice) {
			timed := s.zone.SetSlice(slice)
			if timed && triggered(old) != triggered(slice) {
				s.observeProgramming(slice)
			}
		},
		DeleteFunc: func(gone informer.DeletedObject[*discoveryv1.EndpointSlice]) {
			s.zone.DeleteSlice(gone.GetObjectName())
		},
	}
}

func (s *Server) namespaceHandler() informer.ResourceEventHandlerFuncs[*corev1.Namespace] {
	return informer.ResourceEventHandlerFuncs[*corev1.Namespace]{
		AddFunc:    func(namespace *corev1.Namespace, _ bool) { s.zone.SetNamespace(namespace.Name) },
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Namespace]) { s.zone.DeleteNamespace(gone.Key) },
	}
}

func triggered(slice *discoveryv1.EndpointSlice) string {
	return slice.Annotations[corev1.EndpointsLastChangeTriggerTime]
}

// observeProgramming records how long it took from a change of a pod until its name was known.
func (s *Server) observeProgramming(slice *discoveryv1.EndpointSlice) {
	if at, err := time.Parse(time.RFC3339Nano, triggered(slice)); err == nil {
		s.metrics.programmed.Observe(time.Since(at).Seconds())
	}
}
