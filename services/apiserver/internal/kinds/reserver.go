package kinds

import (
	"context"

	"github.com/garboard/garboard/libs/scheme"
)

// Reserver hands out what a cluster has only once, such as addresses and ports, to the objects of a
// kind. It is safe for concurrent use.
type Reserver interface {
	// Reserve puts into obj, just before it is written, what it needs and old lacks; old is nil for
	// a new object. A dry run puts in what is free, and reserves nothing. The errors are API
	// errors. giveBack frees what Reserve reserved, after a write that certainly did not happen; it
	// continues after ctx has ended.
	Reserve(ctx context.Context, obj, old scheme.Object, dryRun bool) (giveBack func(context.Context), err error)
	// Release frees what an object held before a write and does not hold after it; now is nil after
	// a deletion. It continues after ctx has ended.
	Release(ctx context.Context, before, now scheme.Object)
}
