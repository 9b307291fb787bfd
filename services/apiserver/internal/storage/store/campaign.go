package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	electionPrefix = "/garboard/election"
	electionTTL    = 10 * time.Second
	campaignRetry  = time.Second
	// resignTimeout bounds the leaving of an election; a dead lease runs out by itself.
	resignTimeout = 2 * time.Second
)

// errDeposed ends a term when the key by which this process led is gone.
var errDeposed = errors.New("this process was deposed")

// Election is what processes choose one of them for.
type Election struct {
	// Name tells it from others.
	Name string
	// Presence tells whether a candidate is there. Without it, nil, the lease of one who died
	// must run out before another is elected.
	Presence Presence
	// Deposed, if set, is called whenever this process has deposed a leader who was gone.
	Deposed func()
}

// Campaign calls lead whenever this process is the leader of the election, until ctx ends; then
// it returns nil. lead's context ends when leadership is lost. If lead returns, the process
// resigns and is a candidate again. Two leaders at once are possible for a short time, when
// etcd or the network stands still, or when one who lives seems gone: what lead does must bear
// that.
func (s *Store) Campaign(ctx context.Context, e Election, lead func(ctx context.Context) error) error {
	var peaceful time.Time
	for {
		err := s.term(ctx, e, peaceful, lead)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errDeposed) {
			// Each of two who do not hear each other would depose the other again and again.
			peaceful = time.Now().Add(electionTTL)
		}
		if err != nil {
			s.logger.WarnContext(ctx, "a term of leadership ended", "election", e.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(campaignRetry):
		}
	}
}

// term waits to be elected, leads once and resigns. Nobody is deposed before peaceful is over.
func (s *Store) term(ctx context.Context, e Election, peaceful time.Time, lead func(ctx context.Context) error) (err error) {
	if e.Presence != nil {
		// Before there is a key, so that nobody looks for its owner in vain.
		silence, err := e.Presence.Announce(ctx, s.identity)
		if err != nil {
			return fmt.Errorf("announcing a candidate for %s: %w", e.Name, err)
		}
		defer silence()
	}
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
			err = fmt.Errorf("ending the lease of election %s: %w", e.Name, closeErr)
		}
	}()
	leadCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := beside(func() {
		select {
		case <-session.Done():
			stop(nil)
		case <-leadCtx.Done():
		}
	})
	defer func() { stop(nil); <-ended }()

	prefix := electionPrefix + s.prefix + e.Name
	election := concurrency.NewElection(session, prefix)
	if err := s.campaign(leadCtx, e, election, prefix, peaceful); err != nil {
		return fmt.Errorf("campaigning for %s: %w", e.Name, err)
	}
	s.logger.InfoContext(ctx, "elected", "election", e.Name, "identity", s.identity)
	watched := beside(func() {
		if s.lost(leadCtx, election.Key(), election.Rev()) {
			stop(errDeposed)
		}
	})
	defer func() { stop(nil); <-watched }()
	err = lead(leadCtx)
	if errors.Is(context.Cause(leadCtx), errDeposed) {
		return fmt.Errorf("leading %s: %w", e.Name, errDeposed)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("leading %s: %w", e.Name, err)
	}
	return nil
}

// campaign waits to be elected. Meanwhile leaders who are gone are deposed.
func (s *Store) campaign(ctx context.Context, e Election, election *concurrency.Election, prefix string, peaceful time.Time) error {
	looking, done := context.WithCancel(ctx)
	looked := beside(func() {
		if e.Presence != nil {
			s.deposeTheGone(looking, e, prefix+"/", peaceful)
		}
	})
	defer func() { done(); <-looked }()
	return election.Campaign(ctx, s.identity)
}

// beside does something in a goroutine; done is closed when it has ended.
func beside(do func()) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
	}()
	return ended
}

// lost returns true when a key that was created at a revision is no more, and false when ctx
// ends before.
func (s *Store) lost(ctx context.Context, key string, created int64) bool {
	for ctx.Err() == nil {
		resp, err := s.client.Get(ctx, key)
		if err == nil {
			if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != created {
				return true
			}
			s.awaitDeletion(ctx, key, resp.Header.Revision+1)
		}
		// The watch may have ended for another reason.
		select {
		case <-ctx.Done():
		case <-time.After(lookPause):
		}
	}
	return false
}

// awaitDeletion returns when a key is deleted at a revision or later, or the watch of it ends.
func (s *Store) awaitDeletion(ctx context.Context, key string, revision int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range s.client.Watch(ctx, key, clientv3.WithRev(revision), clientv3.WithFilterPut()) {
		if resp.Err() != nil || len(resp.Events) > 0 {
			return
		}
	}
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
