package registry

import (
	"context"
	"strconv"
	"time"

	"github.com/garboard/garboard/libs/scheme"
)

// obeyedPatience bounds how long a write waits for this apiserver to act on it.
const obeyedPatience = time.Second

// awaitObeyed returns once this apiserver's watch cache has the write that made obj what it is, if
// admission obeys objects of the kind. When the cache trails for longer, the write is no less done.
func (r *Resource) awaitObeyed(ctx context.Context, obj scheme.Object) {
	if !r.strategy.Obeyed {
		return
	}
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, obeyedPatience)
	defer cancel()
	_ = r.feed().WaitFor(ctx, revision)
}
