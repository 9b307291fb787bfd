package rest

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// Fences says whether the fence in a request's context holds: nil if it does, or if there is none;
// 403 if the user may not read the lease, 409 (fence.Lost) if it is not held as the fence says.
// With now the lease is looked at now; without, it may have been a moment ago, since the
// transaction of a write looks again.
type Fences interface {
	Check(ctx context.Context, now bool) error
}

// fence takes the fence that a write carries into the request's context, in which the store finds
// it, and refuses early what the store would refuse. Reads need none.
func (c *call) fence() error {
	given := c.r.Header.Values(fence.Header)
	switch c.req.Verb {
	case "get", "list", "watch":
		return nil
	}
	switch len(given) {
	case 0:
		return nil
	case 1:
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("the header %s is there %d times", fence.Header, len(given)))
	}
	f, err := fence.Parse(given[0])
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the header %s: %v", fence.Header, err))
	}
	ctx := fence.With(c.ctx(), f, nil)
	c.r = c.r.WithContext(ctx)
	// Neither a dry run nor a token comes to the store.
	return c.Fences.Check(ctx, registry.IsDryRun(c.r.URL.Query()["dryRun"]) || c.req.Subresource == "token")
}

// dry notes whether a body asks for a dry run. The store never sees one, which must be refused as
// the write would be.
func (c *call) dry(dryRun []string) error {
	c.dryRun = registry.IsDryRun(dryRun)
	if _, ok := fence.From(c.ctx()); !ok || !c.dryRun {
		return nil
	}
	return c.Fences.Check(c.ctx(), true)
}
