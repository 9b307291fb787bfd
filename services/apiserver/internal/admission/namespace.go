package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// immortal are the namespaces that may not be deleted.
func immortal(name string) bool {
	return slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}, name)
}

// namespaceLifecycle refuses new objects in a namespace that does not exist or is being
// deleted, and the deletion of the namespaces that everything relies on.
func namespaceLifecycle(cfg Config) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		if isNamespace(req) {
			if req.Verb == Delete && immortal(req.Name) {
				return forbidden(req, fmt.Errorf("this namespace may not be deleted"))
			}
			return nil
		}
		if req.Verb != Create || req.Namespace == "" || !req.Kind.Namespaced {
			return nil
		}
		namespace, err := get[*corev1.Namespace](ctx, cfg, "", req.Namespace)
		if apierrors.IsNotFound(err) {
			return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, req.Namespace)
		}
		if err != nil {
			return err
		}
		if namespace.Status.Phase != corev1.NamespaceTerminating && namespace.DeletionTimestamp == nil {
			return nil
		}
		refusal := forbidden(req, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", req.Namespace))
		refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", req.Namespace),
			Field:   "metadata.namespace",
		})
		return refusal
	}
}

func isNamespace(req *Request) bool {
	return req.Kind.Group == "" && req.Kind.Kind == "Namespace"
}

// forbidden is the 403 of a plugin, in Kubernetes' form.
func forbidden(req *Request, err error) *apierrors.StatusError {
	name := req.Name
	if name == "" && req.Object != nil {
		if name = req.Object.GetName(); name == "" {
			name = req.Object.GetGenerateName()
		}
	}
	if name == "" {
		name = "Unknown"
	}
	return apierrors.NewForbidden(req.Kind.GroupResource(), name, err)
}
