package registry

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/feed"
)

// lookup reads what admission must know: from the feed, and from etcd when the feed lacks it,
// since a feed may trail a write that the same client made a moment ago.
type lookup struct{ registry *Registry }

func (l lookup) Namespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	return find[*corev1.Namespace](ctx, l.registry, "", name)
}

func (l lookup) ServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	return find[*corev1.ServiceAccount](ctx, l.registry, namespace, name)
}

func find[T scheme.Object](ctx context.Context, r *Registry, namespace, name string) (T, error) {
	var none T
	kind := scheme.For[T](r.config.Table)
	view := feed.View{Namespace: namespace, Name: name}
	if objs, _, err := r.config.Feeds.Of(kind).Snapshot(ctx, view, 0); err == nil {
		for _, obj := range objs {
			if found, ok := obj.(T); ok && obj.GetName() == name {
				return found, nil
			}
		}
	}
	obj, err := r.config.Store.Get(ctx, kind, namespace, name)
	if err != nil {
		return none, err
	}
	found, ok := obj.(T)
	if !ok {
		return none, apierrors.NewInternalError(fmt.Errorf("reading %s %s/%s: the store gave a %T", kind.Kind, namespace, name, obj))
	}
	return found, nil
}
