package publish

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// witnesses is how many kinds of a part are checked at a time.
const witnesses = 8

const (
	// witnessPatience is how long a log that does not answer in time is asked again. Until then
	// no ask is answered on the bus, so an apiserver can do without its log's evidence for no longer.
	witnessPatience = 15 * time.Second
	witnessPause    = time.Second
)

// Witness checks that etcd is still the one that the logs describe, and begins a new history if it
// is not. An apiserver that has seen nothing itself calls it before it publishes or answers.
//
// The reason: after a restore, what etcd holds of one resource may agree with the log. Its
// informers would then continue from a position of the other etcd, until the publisher of another
// resource finds out. H2. A log that cannot be read is no reason to wait. One that is only slow is
// asked again for 15 s: what is published next replaces the evidence.
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
	for began := time.Now(); ; {
		unread, err := p.compare(ctx, part)
		if err != nil || unread == nil || ctx.Err() != nil {
			return err
		}
		waited := time.Since(began)
		if !errors.Is(unread, context.DeadlineExceeded) || waited >= witnessPatience {
			p.cfg.Logger.WarnContext(ctx, "cannot check without a log whether etcd was set back", "err", unread)
			return nil
		}
		p.cfg.Logger.InfoContext(ctx, "waiting for the log, to check whether etcd was set back",
			"waited", waited.Round(time.Millisecond), "limit", witnessPatience, "err", unread)
		if !backoff.Sleep(ctx, backoff.Around(witnessPause)) {
			return nil
		}
	}
}

// compare compares every resource of a part once. Its result unread says why the log, or a part of
// it, could not be read.
func (p *Publisher) compare(ctx context.Context, part Part) (unread, err error) {
	bounded, cancel := context.WithTimeout(ctx, openTimeout)
	log, err := part.OpenLog(bounded)
	cancel()
	if err != nil {
		return err, nil
	}
	defer log.Close()
	reads := &reads{Log: log}
	j := newJournal(nil, nil, p.cfg.Logger) // its open function is nil, so it counts as tried
	j.log = reads
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
	err = group.Wait()
	return reads.failure(), err
}

// reads is a log that remembers one failure to read it.
type reads struct {
	Log

	mu     sync.Mutex
	failed error
}

// Last returns the newest message at a subject.
func (r *reads) Last(ctx context.Context, subject string) (bus.Message, error) {
	message, err := r.Log.Last(ctx, subject)
	if err != nil && !errors.Is(err, bus.ErrNone) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.failed = err
	}
	return message, err
}

func (r *reads) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
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
