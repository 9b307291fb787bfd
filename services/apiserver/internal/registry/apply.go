package registry

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Apply merges the fields that the field manager of opts wants into an object or one of its
// subresources (server-side apply). If the object does not exist, Apply creates it, but not for a
// subresource. Fields that the manager wanted before and no longer wants are removed unless another
// manager owns them. A field that another manager owns with another value is a conflict, unless
// opts force it. check, unless nil, sees the merged object and may refuse it; after a lost race it
// sees the next one. Apply returns what was written.
func (r *Resource) Apply(ctx context.Context, namespace, name string, wanted *unstructured.Unstructured, check func(merged scheme.Object) error, opts UpdateOptions) (scheme.Object, error) {
	opts.OwnersGiven, opts.applied = true, true
	return r.Update(ctx, namespace, name, func(current scheme.Object) (scheme.Object, error) {
		merged, err := r.owners.Apply(r.kind, opts.Subresource, current, wanted, opts.FieldManager, opts.Force)
		if err != nil {
			return nil, err
		}
		if check != nil {
			if err := check(merged); err != nil {
				return nil, err
			}
		}
		if merged.GetName() == "" {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", name))
		}
		return merged, nil
	}, opts)
}

// mayCreate refuses an update that would create an object to a user who may only update.
func (r *Resource) mayCreate(ctx context.Context, namespace, name string) error {
	user, ok := authn.UserFrom(ctx)
	if !ok || r.registry.config.Authorizer == nil {
		return nil // the caller is this process itself
	}
	return authz.Check(ctx, r.registry.config.Authorizer, user, authz.Attributes{
		Verb: "create", Group: r.kind.Group, Version: r.kind.Version, Resource: r.kind.Resource, Namespace: namespace, Name: name,
	})
}
