package access

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// Objects reads the objects that service account tokens are bound to.
type Objects struct{ access *Access }

// Objects returns the reader of those objects.
func (a *Access) Objects() Objects { return Objects{a} }

// ServiceAccount reads a service account.
func (o Objects) ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return lookup[*corev1.ServiceAccount](ctx, o.access, namespace, name)
}

// Pod reads a pod.
func (o Objects) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return lookup[*corev1.Pod](ctx, o.access, namespace, name)
}

// Secret reads a secret.
func (o Objects) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return lookup[*corev1.Secret](ctx, o.access, namespace, name)
}

// Node reads a node.
func (o Objects) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return lookup[*corev1.Node](ctx, o.access, "", name)
}

// lookup reads an object from the feed, which saves a read of etcd for each request, and from etcd
// if the feed doesn't have it (yet).
func lookup[T scheme.Object](ctx context.Context, a *Access, namespace, name string) (T, error) {
	kind := scheme.For[T](a.table)
	if cached, ok := a.feeds.Of(kind).Cached(namespace, name); ok {
		if found, ok := cached.(T); ok {
			return found, nil
		}
	}
	return stored[T](ctx, a, namespace, name)
}
