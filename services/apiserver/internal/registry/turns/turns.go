// Package turns bounds how many costly validations run at a time, so that whoever causes many of them leaves
// processors to the requests of others.
package turns

import (
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Turns are the turns that costly validations take: one fewer than processors, and at least one, run at a time.
// The rest waits in order.
type Turns struct{ free *semaphore.Weighted }

// New returns turns that are all free.
func New() *Turns { return &Turns{semaphore.NewWeighted(int64(size()))} }

func size() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// Take waits until an object of a kind may be validated, which ends with the returned function. It does not wait
// if that is not costly. Its API error, after the context has ended, tells the client to try again.
func (t *Turns) Take(ctx context.Context, of *kinds.Definition) (end func(), err error) {
	if !of.Costly {
		return func() {}, nil
	}
	if err := t.free.Acquire(ctx, 1); err != nil {
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("validating %s is costly, and others were first: %v", of.GroupResource(), context.Cause(ctx)), 1)
	}
	return func() { t.free.Release(1) }, nil
}
