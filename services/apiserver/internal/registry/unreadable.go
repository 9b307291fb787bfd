package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// unsafeDelete is the verb that a user needs, in addition to delete, to delete an object that
// cannot be read.
const unsafeDelete = "unsafe-delete-ignore-read-errors"

// deleteUnreadable deletes a stored value that cannot be read, without admission, finalizers,
// preconditions or grace, none of which can be known. In the object that it returns, only the name
// and the deletion's resourceVersion are known.
func (r *Resource) deleteUnreadable(ctx context.Context, namespace, name string, opts metav1.DeleteOptions) (scheme.Object, error) {
	authorizer := r.registry.config.Authorizer
	if authorizer == nil {
		return nil, apierrors.NewInternalError(errors.New("no authorizer provided, unable to authorize unsafe delete"))
	}
	user, _ := authn.UserFrom(ctx)
	decision, reason, err := authorizer.Authorize(ctx, user, authz.Attributes{
		Verb: unsafeDelete, Group: r.kind.Group, Version: r.kind.Version, Resource: r.kind.Resource, Namespace: namespace, Name: name,
	})
	switch {
	case err != nil && decision != authz.Allow:
		return nil, apierrors.NewForbidden(r.kind.GroupResource(), name, fmt.Errorf("error while checking permission for %q, %w", unsafeDelete, err))
	case decision != authz.Allow:
		return nil, apierrors.NewForbidden(r.kind.GroupResource(), name, fmt.Errorf("not permitted to do %q, reason: %s", unsafeDelete, reason))
	}
	revision, err := r.store.DeleteUnreadable(ctx, r.stored, namespace, name, IsDryRun(opts.DryRun))
	if err != nil {
		return nil, r.rename(err)
	}
	obj := r.kind.New()
	obj.SetNamespace(namespace)
	obj.SetName(name)
	if revision > 0 {
		obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	}
	return obj, nil
}
