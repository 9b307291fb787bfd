// Package namespaceexists is the plugin NamespaceExists.
package namespaceexists

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin. It refuses every write in a namespace that does not exist, also an
// update or deletion, which NamespaceLifecycle lets pass.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Validate: func(ctx context.Context, req *admission.Request) error {
		if req.Namespace == "" || req.Kind.Group == corev1.GroupName && req.Kind.Kind == "Namespace" {
			return nil
		}
		_, err := admission.Get[*corev1.Namespace](ctx, objects, "", req.Namespace)
		if err != nil && !apierrors.IsNotFound(err) {
			return apierrors.NewInternalError(err)
		}
		return err
	}}
}
