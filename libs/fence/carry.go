package fence

import "context"

// carried is what a context carries.
type carried struct {
	fence   Fence
	refused func()
}

type key struct{}

// With is ctx with a fence, for all writes that are made with it. refused, unless nil, is called
// when one of them is refused since the fence no longer holds; it may not block.
func With(ctx context.Context, f Fence, refused func()) context.Context {
	return context.WithValue(ctx, key{}, &carried{f, refused})
}

// Without is ctx without a fence: for writes that are to be made whoever leads, such as those
// that follow from a write that was made, or take back what one that was refused had begun.
func Without(ctx context.Context) context.Context {
	if _, ok := From(ctx); !ok {
		return ctx
	}
	return context.WithValue(ctx, key{}, (*carried)(nil))
}

// From is the fence that ctx carries; false if it carries none.
func From(ctx context.Context) (Fence, bool) {
	c, _ := ctx.Value(key{}).(*carried)
	if c == nil {
		return Fence{}, false
	}
	return c.fence, true
}

// Refused tells who gave ctx its fence that a write was refused, if err says so. Clients call it
// with the outcome of each write.
func Refused(ctx context.Context, err error) {
	if c, _ := ctx.Value(key{}).(*carried); c != nil && c.refused != nil && IsLost(err) {
		c.refused()
	}
}
