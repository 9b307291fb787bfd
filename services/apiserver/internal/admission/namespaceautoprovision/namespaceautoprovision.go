// Package namespaceautoprovision is the plugin NamespaceAutoProvision.
package namespaceautoprovision

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin. It creates the namespace of a new object if it doesn't exist, with the
// rights of the apiserver.
func Plugin(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Mutate: func(ctx context.Context, req *admission.Request) error {
		if req.Verb != admission.Create || req.DryRun || req.Namespace == "" || req.Kind.Group == corev1.GroupName && req.Kind.Kind == "Namespace" {
			return nil
		}
		_, err := admission.Get[*corev1.Namespace](ctx, objects, "", req.Namespace)
		if apierrors.IsNotFound(err) {
			err = objects.Lookup.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: req.Namespace}})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return admission.Forbidden(req, err)
		}
		return nil
	}}
}
