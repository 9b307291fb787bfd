package fence

import "context"

// carried is the context value.
type carried struct {
	fence   Fence
	refused func()
}

type key struct{}

// With returns ctx with a fence for all writes made with it. The function refused, unless nil, is
// called when one of them is refused because the fence no longer holds; it must not block.
func With(ctx context.Context, f Fence, refused func()) context.Context {
	return context.WithValue(ctx, key{}, &carried{f, refused})
}

// Without returns ctx without a fence. It is for writes that must happen whichever replica leads,
// such as those that follow from a completed write, or that undo the beginnings of a refused one.
func Without(ctx context.Context) context.Context {
	if _, ok := From(ctx); !ok {
		return ctx
	}
	return context.WithValue(ctx, key{}, (*carried)(nil))
}

// From returns the fence that ctx carries; ok is false if it carries none.
func From(ctx context.Context) (Fence, bool) {
	c, _ := ctx.Value(key{}).(*carried)
	if c == nil {
		return Fence{}, false
	}
	return c.fence, true
}

// Refused calls the refused function of ctx's fence if err means that the fence was lost. Clients
// call it with the outcome of each write.
func Refused(ctx context.Context, err error) {
	if c, _ := ctx.Value(key{}).(*carried); c != nil && c.refused != nil && IsLost(err) {
		c.refused()
	}
}
