package rest

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// Fences checks fences. Check returns nil if the fence in ctx holds, or if there is none. It
// returns 403 if the user may not read the Lease, and 409 (fence.Lost) if the Lease is not held as
// the fence says. If now is true, the Lease is read now. Otherwise a recent state will do, since
// the transaction of the write checks again.
type Fences interface {
	Check(ctx context.Context, now bool) error
}

// fence moves the fence of a write from its header into the request's context, where the store
// finds it, and refuses early what the store would refuse. Reads need no fence.
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
		return apierrors.NewBadRequest(fmt.Sprintf("the header %s is set %d times", fence.Header, len(given)))
	}
	f, err := fence.Parse(given[0])
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the header %s: %v", fence.Header, err))
	}
	ctx := fence.With(c.ctx(), f, nil)
	c.r = c.r.WithContext(ctx)
	// Neither a dry run nor a virtual subresource reaches the store.
	row := c.req.Kind.Subresource(c.req.Subresource)
	return c.Fences.Check(ctx, registry.IsDryRun(c.r.URL.Query()["dryRun"]) || row != nil && row.Virtual)
}

// dry notes whether a body asks for a dry run. A dry run never reaches the store, so its fence is
// checked here, as the store would check it for the write.
func (c *call) dry(dryRun []string) error {
	c.dryRun = registry.IsDryRun(dryRun)
	if _, ok := fence.From(c.ctx()); !ok || !c.dryRun {
		return nil
	}
	return c.Fences.Check(c.ctx(), true)
}
