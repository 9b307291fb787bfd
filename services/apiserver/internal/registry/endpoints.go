package registry

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// forgetEndpoints deletes the Endpoints of a deleted service, whoever created them; gone may be of
// any kind. No authorization applies: it is part of the service's deletion.
func (r *Registry) forgetEndpoints(ctx context.Context, gone scheme.Object) {
	service, ok := gone.(*corev1.Service)
	if !ok {
		return
	}
	endpoints := r.Resource(r.table.Kind(corev1.SchemeGroupVersion.WithKind("Endpoints")))
	if endpoints == nil {
		return
	}
	unasked := *endpoints
	unasked.admission = &admission.Chain{}
	_, _, err := unasked.Delete(fence.Without(context.WithoutCancel(ctx)), service.Namespace, service.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		r.log.Warn("failed to delete the endpoints of a service", "namespace", service.Namespace, "name", service.Name, "err", err)
	}
}
