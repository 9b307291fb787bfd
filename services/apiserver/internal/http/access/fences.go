package access

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Fences checks the fences of requests. The refusal names the holder of the Lease, so the sender of
// a fence must have the right to read it.
type Fences struct{ access *Access }

// Fences returns the checks of fences.
func (a *Access) Fences() Fences { return Fences{a} }

// Check implements rest.Fences.
func (f Fences) Check(ctx context.Context, now bool) error {
	of, ok := fence.From(ctx)
	if !ok {
		return nil
	}
	user, _ := authn.UserFrom(ctx)
	wants := authz.Attributes{
		Verb: "get", Group: coordinationv1.GroupName, Version: coordinationv1.SchemeGroupVersion.Version, Resource: "leases",
		Namespace: of.Namespace, Name: of.Name,
	}
	decision, reason, err := f.access.authorizer.Authorize(ctx, user, wants)
	switch {
	case decision == authz.Allow:
		return f.access.store.CheckFence(ctx, now)
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return authz.Forbidden(user, wants, reason)
}
