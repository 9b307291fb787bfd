// Package turns bounds how many costly validations run at a time, and how much time a user's failed ones take, so that
// whoever causes many of them leaves processors to the requests of others.
package turns

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Turns are the turns that costly validations take: one fewer than processors, and at least one, run at a time.
// The rest waits in order. A user whose validations failed has them run one at a time, and waits between them.
type Turns struct {
	free  *semaphore.Weighted
	debts *debts
}

// New returns turns that are all free.
func New() *Turns { return &Turns{semaphore.NewWeighted(int64(size())), newDebts()} }

func size() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// Take waits until an object of a kind may be validated, which ends with the returned function, told whether the
// object was valid. It does not wait if that is not costly. Its API error tells the client to try again: the context
// has ended, or will before the turn comes.
func (t *Turns) Take(ctx context.Context, of *kinds.Definition) (end func(valid bool), err error) {
	if !of.Costly {
		return func(bool) {}, nil
	}
	who, _ := authn.UserFrom(ctx)
	owed := t.debts.of(who.Name)
	release, err := t.turn(ctx, owed)
	if err != nil {
		return nil, apierrors.NewTimeoutError(fmt.Sprintf("validating %s is costly, and %v", of.GroupResource(), err), 1)
	}
	began := time.Now()
	return func(valid bool) {
		if !valid {
			owed.add(time.Since(began))
		}
		release()
	}, nil
}

// turn waits until there is no debt and it is the caller's turn. The returned function lets the next one go on.
func (t *Turns) turn(ctx context.Context, owed *debt) (release func(), err error) {
	for {
		paid, waited, err := owed.wait(ctx)
		if err != nil {
			return nil, fmt.Errorf("this user's failed ones are to be waited for: %w", err)
		}
		if err := t.free.Acquire(ctx, 1); err != nil {
			paid()
			return nil, fmt.Errorf("others were first: %w", context.Cause(ctx))
		}
		// Others of the user may have failed before it was the caller's turn.
		if waited || !owed.open() {
			return func() {
				t.free.Release(1)
				paid()
			}, nil
		}
		t.free.Release(1)
	}
}
