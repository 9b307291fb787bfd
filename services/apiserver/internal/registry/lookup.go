package registry

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/registry/selection"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// lookup provides what admission must know: from the feed, and from etcd if the feed lacks it,
// since a feed may trail a write that the same client made a moment ago.
type lookup struct{ registry *Registry }

func (l lookup) Get(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	if obj, ok := l.registry.config.Feeds.Of(kind).Cached(namespace, name); ok {
		return obj, nil
	}
	return l.Live(ctx, kind, namespace, name)
}

func (l lookup) Live(ctx context.Context, kind *scheme.Kind, namespace, name string) (scheme.Object, error) {
	return l.registry.config.Store.Get(ctx, kind, namespace, name)
}

func (l lookup) List(ctx context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error) {
	if objs := l.registry.config.Feeds.Of(kind).CachedIn(fabric.View{Namespace: namespace}); objs != nil {
		return objs, nil
	}
	return l.LiveList(ctx, kind, namespace)
}

func (l lookup) ListSince(ctx context.Context, kind *scheme.Kind, have admission.Version) ([]scheme.Object, admission.Version, bool, error) {
	objs, now, changed := l.registry.config.Feeds.Of(kind).CachedSince(fabric.View{}, feed.Version(have))
	if changed || have != (admission.Version{}) {
		return objs, admission.Version(now), changed, nil
	}
	objs, err := l.LiveList(ctx, kind, "") // The feed has not been read yet.
	return objs, admission.Version{}, true, err
}

func (l lookup) LiveList(ctx context.Context, kind *scheme.Kind, namespace string) ([]scheme.Object, error) {
	r := l.registry.Resource(kind)
	listing, err := r.readNow(ctx, selection.Everything(namespace), "", store.ListOptions{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	return listing.Objects(), nil
}

func (l lookup) Update(ctx context.Context, kind *scheme.Kind, namespace, name string, change func(scheme.Object) (scheme.Object, error)) (scheme.Object, error) {
	return l.registry.config.Store.Update(ctx, kind, namespace, name, l.registry.Resource(kind).Recorded(change))
}

func (l lookup) Create(ctx context.Context, obj scheme.Object) error {
	own := authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}}
	_, err := l.registry.Resource(l.registry.table.KindOf(obj)).Create(authn.WithUser(ctx, own), obj.GetNamespace(), obj, metav1.CreateOptions{FieldManager: ownWriter})
	return err
}
