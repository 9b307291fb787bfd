// Package perkind runs a function for each served kind, from its installation to its removal.
package perkind

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// Kinds are kinds that come and go, such as those of a *scheme.Table.
type Kinds interface {
	// Follow returns the kinds that there are, and a channel that is closed when there are others.
	Follow() (kinds []*scheme.Kind, changed <-chan struct{})
}

// Run calls run for every kind of a table: at once for those that are served now, later for those
// that are installed. When a kind is removed, the context of its run is cancelled with the cause
// scheme.ErrRemoved. A kind of the same resource that comes later waits for the end of that run. Run
// returns when ctx has ended or a run has failed, and all runs have returned.
func Run(ctx context.Context, table Kinds, run func(ctx context.Context, kind *scheme.Kind) error) error {
	return RunOf(ctx, table, func(kinds []*scheme.Kind) []*scheme.Kind { return kinds }, run)
}

// RunOf is Run for those kinds that choose returns of all kinds of the table. A kind that is no longer chosen
// counts as removed.
func RunOf(
	ctx context.Context, table Kinds, choose func(kinds []*scheme.Kind) []*scheme.Kind,
	run func(ctx context.Context, kind *scheme.Kind) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		running, ending := map[*scheme.Kind]*life{}, map[schema.GroupResource][]*life{}
		for {
			kinds, changed := table.Follow()
			kinds = choose(kinds)
			chosen := make(map[*scheme.Kind]bool, len(kinds))
			for _, kind := range kinds {
				chosen[kind] = true
			}
			for kind, one := range running {
				if !chosen[kind] {
					one.end(scheme.ErrRemoved)
					ending[kind.GroupResource()] = append(ending[kind.GroupResource()], one)
					delete(running, kind)
				}
			}
			forgetEnded(ending)
			for _, kind := range kinds {
				if running[kind] == nil {
					one, before := newLife(ctx), slices.Clone(ending[kind.GroupResource()])
					running[kind] = one
					group.Go(func() error {
						defer close(one.over)
						for _, former := range before {
							<-former.over
						}
						return run(one.ctx, kind)
					})
				}
			}
			select {
			case <-changed:
			case <-ctx.Done():
				for _, one := range running {
					one.end(nil)
				}
				return nil
			}
		}
	})
	return group.Wait()
}

// forgetEnded drops the lives that are over.
func forgetEnded(ending map[schema.GroupResource][]*life) {
	for resource, lives := range ending {
		lives = slices.DeleteFunc(lives, func(one *life) bool {
			select {
			case <-one.over:
				return true
			default:
				return false
			}
		})
		if ending[resource] = lives; len(lives) == 0 {
			delete(ending, resource)
		}
	}
}

// life is one call of run.
type life struct {
	ctx  context.Context //nolint:containedctx // It lives as long as the run that owns it.
	end  context.CancelCauseFunc
	over chan struct{} // closed when the run has returned
}

func newLife(ctx context.Context) *life {
	ctx, end := context.WithCancelCause(ctx)
	return &life{ctx: ctx, end: end, over: make(chan struct{})}
}
