// Package namespacelifecycle is the plugin NamespaceLifecycle.
package namespacelifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// immortal reports whether a namespace may not be deleted.
func immortal(name string) bool {
	return slices.Contains([]string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}, name)
}

// Plugin returns the plugin. It refuses new objects in a namespace that does not exist or is being
// deleted, and the deletion of the namespaces that everything relies on.
func Plugin(objects admission.Objects) admission.Plugin {
	deleted := &recent{until: map[string]time.Time{}}
	return admission.Plugin{Mutate: func(ctx context.Context, req *admission.Request) error {
		if isNamespace(req) {
			if req.Verb != admission.Delete {
				return nil
			}
			if immortal(req.Name) {
				return admission.Forbidden(req, errors.New("this namespace may not be deleted"))
			}
			deleted.add(req.Name)
			return nil
		}
		// A review must not reveal whether a namespace exists that the user may not see.
		if req.Verb != admission.Create || req.Namespace == "" || !req.Kind.Namespaced || req.Kind.Resource == "localsubjectaccessreviews" {
			return nil
		}
		namespace, err := admission.Get[*corev1.Namespace](ctx, objects, "", req.Namespace)
		if err == nil && !terminating(namespace) && deleted.has(req.Namespace) {
			// The cache may not show the deletion yet.
			namespace, err = admission.Live[*corev1.Namespace](ctx, objects, "", req.Namespace)
		}
		switch {
		case apierrors.IsNotFound(err):
			return apierrors.NewNotFound(corev1.Resource("namespaces"), req.Namespace)
		case err != nil:
			return apierrors.NewInternalError(err)
		case !terminating(namespace):
			return nil
		}
		refusal := admission.Forbidden(req, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", req.Namespace))
		refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
			Type:    corev1.NamespaceTerminatingCause,
			Message: fmt.Sprintf("namespace %s is being terminated", req.Namespace),
			Field:   "metadata.namespace",
		})
		return refusal
	}}
}

func terminating(namespace *corev1.Namespace) bool {
	return namespace.Status.Phase == corev1.NamespaceTerminating || namespace.DeletionTimestamp != nil
}

func isNamespace(req *admission.Request) bool {
	return req.Kind.Group == "" && req.Kind.Kind == "Namespace"
}

// recent remembers the namespaces that were deleted through this process a short while ago.
type recent struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// For how long, and for how many namespaces, a deletion is remembered. Kubernetes' values.
const (
	remembered     = 30 * time.Second
	mostRemembered = 100
)

func (r *recent) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	oldest := name
	for other, until := range r.until {
		if until.Before(now) {
			delete(r.until, other)
		} else if oldest == name || until.Before(r.until[oldest]) {
			oldest = other
		}
	}
	if len(r.until) >= mostRemembered {
		delete(r.until, oldest)
	}
	r.until[name] = now.Add(remembered)
}

func (r *recent) has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.until[name])
}
