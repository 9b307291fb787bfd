package publish

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// witnesses is how many kinds of a part are asked about at a time.
const witnesses = 8

// Witness asks etcd whether it still is the one of which the logs tell, and begins a new history
// if it is not. An apiserver that has seen nothing yet itself does so before it publishes or
// answers: what etcd holds of one resource may well agree with the log after a restore, and its
// informers be led on from a position that was another's, until the publisher of another
// resource finds it out. H2. A log that cannot be read is no reason to wait.
func (p *Publisher) Witness(ctx context.Context) error {
	for _, part := range p.cfg.Parts {
		if err := p.witness(ctx, part); err != nil && ctx.Err() == nil {
			return fmt.Errorf("comparing etcd with what its log tells of it: %w", err)
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
			p.cfg.Logger.WarnContext(ctx, "whether etcd was set back cannot be told without a log", "error", err)
		}
		return nil
	}
	defer log.Close()
	j := newJournal(nil, p.cfg.Logger) // which counts as tried
	j.log = log
	var group errgroup.Group
	group.SetLimit(witnesses)
	for _, kind := range part.Kinds {
		if !kind.Stored() {
			continue
		}
		group.Go(func() error {
			return newResource(p, kind, j).witness(ctx)
		})
	}
	return group.Wait()
}

// witness compares one resource. A feed that is read anew meanwhile is waited for.
func (r *resource) witness(ctx context.Context) error {
	for {
		if err := r.feed.WaitFor(ctx, 0); err != nil {
			return err
		}
		r.enter(r.feed.History())
		_, err := r.loggedCursor(ctx)
		switch {
		case errors.Is(err, feed.ErrNotReady) && ctx.Err() == nil:
			continue
		case err != nil && ctx.Err() == nil:
			// That a new history has begun is all that was wanted. If etcd did not
			// answer, the publisher will ask again.
			r.logger.WarnContext(ctx, "the log and etcd do not agree", "error", err)
		}
		return nil
	}
}
