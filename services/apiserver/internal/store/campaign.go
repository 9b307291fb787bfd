package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	electionPrefix = "/garboard/election"
	electionTTL    = 10 * time.Second
	campaignRetry  = time.Second
	// resignTimeout bounds the leaving of an election; a dead lease runs out by itself.
	resignTimeout = 2 * time.Second
)

// Campaign calls lead whenever this process is the leader of the named election, until ctx
// ends; then it returns nil. lead's context ends when leadership is lost. If lead returns,
// the process resigns and is a candidate again. Two leaders at once are possible for a short
// time, when etcd or the network stands still: what lead does must bear that.
func (s *Store) Campaign(ctx context.Context, name string, lead func(ctx context.Context) error) error {
	for {
		err := s.term(ctx, name, lead)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			s.logger.WarnContext(ctx, "a term of leadership ended", "election", name, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(campaignRetry):
		}
	}
}

// term waits to be elected, leads once and resigns.
func (s *Store) term(ctx context.Context, name string, lead func(ctx context.Context) error) (err error) {
	// The session outlives ctx, so that resigning and ending the lease still work: the next
	// leader need not wait for the lease to run out.
	sessionCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	session, err := s.session(ctx, sessionCtx)
	if err != nil {
		return err
	}
	defer func() {
		defer time.AfterFunc(resignTimeout, cancel).Stop()
		if closeErr := session.Close(); closeErr != nil && err == nil {
			err = fmt.Errorf("ending the lease of election %s: %w", name, closeErr)
		}
	}()
	leadCtx, stop := context.WithCancel(ctx)
	defer stop()
	release := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-session.Done():
			stop()
		case <-release:
		}
	}()
	defer func() { close(release); <-watched }()

	election := concurrency.NewElection(session, electionPrefix+s.prefix+name)
	if err := election.Campaign(leadCtx, s.identity); err != nil {
		return fmt.Errorf("campaigning for %s: %w", name, err)
	}
	s.logger.InfoContext(ctx, "elected", "election", name, "identity", s.identity)
	if err := lead(leadCtx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("leading %s: %w", name, err)
	}
	return nil
}

// session makes a lease that is kept alive; ctx bounds the making, sessionCtx the life.
func (s *Store) session(ctx, sessionCtx context.Context) (*concurrency.Session, error) {
	lease, err := s.client.Grant(ctx, int64(electionTTL/time.Second))
	if err != nil {
		return nil, fmt.Errorf("granting the lease of an election: %w", statusOf(err))
	}
	session, err := concurrency.NewSession(s.client, concurrency.WithContext(sessionCtx),
		concurrency.WithLease(lease.ID), concurrency.WithTTL(int(electionTTL/time.Second)))
	if err != nil {
		return nil, fmt.Errorf("keeping the lease of an election: %w", err)
	}
	return session, nil
}
