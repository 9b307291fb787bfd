package apiserver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// bound reads the objects that service account tokens are bound to.
type bound struct{ plane *plane }

// ServiceAccount reads a service account.
func (b bound) ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return lookup[*corev1.ServiceAccount](ctx, b.plane, namespace, name)
}

// Pod reads a pod.
func (b bound) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	return lookup[*corev1.Pod](ctx, b.plane, namespace, name)
}

// Secret reads a secret.
func (b bound) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return lookup[*corev1.Secret](ctx, b.plane, namespace, name)
}

// Node reads a node.
func (b bound) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return lookup[*corev1.Node](ctx, b.plane, "", name)
}

// lookup reads an object from the feed, which saves a read of etcd for each request, and from etcd
// if the feed doesn't have it (yet).
func lookup[T scheme.Object](ctx context.Context, p *plane, namespace, name string) (T, error) {
	var none T
	kind := scheme.For[T](p.table)
	if cached, ok := p.feeds.Of(kind).Cached(namespace, name); ok {
		if found, ok := cached.(T); ok {
			return found, nil
		}
	}
	obj, err := p.store.Get(ctx, kind, namespace, name)
	if err != nil {
		return none, err
	}
	found, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("reading %s %s/%s: the store returned a %T", kind.Kind, namespace, name, obj)
	}
	return found, nil
}
