package access

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/garboard/garboard/libs/fence"
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
	wants := authz.Attributes{
		Verb: "get", Group: coordinationv1.GroupName, Version: coordinationv1.SchemeGroupVersion.Version, Resource: "leases",
		Namespace: of.Namespace, Name: of.Name,
	}
	if err := f.access.Allow(ctx, wants); err != nil {
		return err
	}
	return f.access.store.CheckFence(ctx, now)
}
