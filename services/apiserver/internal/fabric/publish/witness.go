package publish

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// witnesses is how many kinds of a part are checked at a time.
const witnesses = 8

// Witness checks that etcd is still the one that the logs describe, and begins a new history if it
// is not. An apiserver that has seen nothing itself calls it before it publishes or answers.
//
// The reason: after a restore, what etcd holds of one resource may agree with the log. Its
// informers would then continue from a position of the other etcd, until the publisher of another
// resource finds out. H2. A log that cannot be read is no reason to wait.
func (p *Publisher) Witness(ctx context.Context) error {
	for _, part := range p.cfg.Parts {
		if err := p.witness(ctx, part); err != nil && ctx.Err() == nil {
			return fmt.Errorf("comparing etcd with its log: %w", err)
		}
	}
	return nil
}

func (p *Publisher) witness(ctx context.Context, part Part) error {
	if part.OpenLog == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	log, err := part.OpenLog(bounded)
	cancel()
	if err != nil {
		if ctx.Err() == nil {
			p.cfg.Logger.WarnContext(ctx, "cannot check without a log whether etcd was set back", "err", err)
		}
		return nil
	}
	defer log.Close()
	j := newJournal(nil, nil, p.cfg.Logger) // its open function is nil, so it counts as tried
	j.log = log
	var group errgroup.Group
	group.SetLimit(witnesses)
	for _, kind := range p.cfg.Table.Kinds() {
		if !part.holds(kind) {
			continue
		}
		group.Go(func() error {
			return newResource(p, kind, j).witness(ctx)
		})
	}
	return group.Wait()
}

// witness compares one resource. It waits for a feed that is being read anew.
func (r *resource) witness(ctx context.Context) error {
	for {
		if err := r.feed.WaitFor(ctx, 0); errors.Is(err, scheme.ErrRemoved) {
			return nil
		} else if err != nil {
			return err
		}
		r.enter(r.feed.History())
		_, err := r.loggedCursor(ctx)
		switch {
		case errors.Is(err, feed.ErrNotReady) && ctx.Err() == nil:
			continue
		case err != nil && ctx.Err() == nil:
			// A new history has begun, which is the purpose of this check. If etcd did not answer,
			// the publisher will check again.
			r.logger.WarnContext(ctx, "the log and etcd do not agree", "err", err)
		}
		return nil
	}
}
