package registry

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// newTurns returns the turns that costly validations take: one fewer than processors, and at least one, run at
// a time. The rest waits in order, so that whoever sends many leaves processors to the requests of others.
func newTurns() *semaphore.Weighted {
	return semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)-1)))
}

// inTurn validates an object once it is its turn, if its kind is costly to validate. The API error of a request
// that ends earlier tells the client to try again.
func (r *Resource) inTurn(ctx context.Context, validate func() error) error {
	if !r.strategy.Costly {
		return validate()
	}
	if err := r.registry.turns.Acquire(ctx, 1); err != nil {
		return apierrors.NewTimeoutError(fmt.Sprintf("%s are costly to validate, and others were first: %v", r.kind.GroupResource(), context.Cause(ctx)), 1)
	}
	defer r.registry.turns.Release(1)
	return validate()
}
