package election

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
)

const (
	// keys is where the keys of all elections are, outside every prefix.
	keys          = "/garboard/election"
	leaseTTL      = 10 * time.Second
	campaignRetry = time.Second
	// resignTimeout bounds resigning from an election; an abandoned lease expires by itself.
	resignTimeout = 2 * time.Second
)

// errDeposed ends a term when the key that makes this process the leader is gone.
var errDeposed = errors.New("this process was deposed")

// Elections are the elections among the processes that use one etcd cluster with one prefix. They
// are safe for concurrent use.
type Elections struct {
	client   *clientv3.Client
	prefix   string
	identity string
	logger   *slog.Logger
}

// New returns the elections among the processes with a prefix, which begins and ends with a slash.
// This process gets a random name in them.
func New(client *clientv3.Client, prefix string, logger *slog.Logger) *Elections {
	return &Elections{client: client, prefix: prefix, identity: identity(), logger: logger}
}

// Identity returns the name of this process as a candidate.
func (s *Elections) Identity() string { return s.identity }

// Leader returns the name of the process that leads an election; empty if there is none, or if etcd
// does not answer.
func (s *Elections) Leader(ctx context.Context, election string) string {
	found, _ := s.leader(ctx, s.keysOf(election)+"/")
	return found.candidate
}

// keysOf returns where the keys of an election are.
func (s *Elections) keysOf(election string) string { return keys + s.prefix + election }

// Election is one election among processes.
type Election struct {
	// Name distinguishes this election from others.
	Name string
	// Presence reports whether a candidate is alive. If it is nil, the lease of a dead leader must
	// expire before another candidate is elected.
	Presence Presence
	// Deposed, if set, is called whenever this process has deposed a leader that was gone.
	Deposed func()
}

// Campaign calls lead whenever this process is the leader of the election, until ctx ends; then it
// returns nil. lead's context ends when leadership is lost. If lead returns, the process resigns
// and becomes a candidate again. Two leaders can exist for a short time: when etcd or the network
// stalls, or when a live leader seems gone. lead must tolerate that.
func (s *Elections) Campaign(ctx context.Context, e Election, lead func(ctx context.Context) error) error {
	var peaceful time.Time
	for {
		err := s.term(ctx, e, peaceful, lead)
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, errDeposed) {
			// Otherwise two processes that cannot hear each other would depose each other forever.
			peaceful = time.Now().Add(leaseTTL)
		}
		if err != nil {
			s.logger.WarnContext(ctx, "a term of leadership ended", "election", e.Name, "err", err)
		}
		if !backoff.Sleep(ctx, campaignRetry) {
			return nil
		}
	}
}

// term waits to be elected, leads once and resigns. It deposes no leader before peaceful has
// passed.
func (s *Elections) term(ctx context.Context, e Election, peaceful time.Time, lead func(ctx context.Context) error) (err error) {
	if e.Presence != nil {
		// Announce before the key exists, so that no process looks for its owner in vain.
		silence, err := e.Presence.Announce(ctx, s.identity)
		if err != nil {
			return fmt.Errorf("announcing a candidate for %s: %w", e.Name, err)
		}
		defer silence()
	}
	// The session outlives ctx, so that resigning and revoking the lease still work: the next
	// leader need not wait for the lease to expire.
	sessionCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	client, release := s.resigning(ctx)
	defer release()
	session, err := s.session(ctx, sessionCtx, client)
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

	prefix := s.keysOf(e.Name)
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

// campaign waits to be elected. Meanwhile it deposes leaders that are gone.
func (s *Elections) campaign(ctx context.Context, e Election, election *concurrency.Election, prefix string, peaceful time.Time) error {
	looking, done := context.WithCancel(ctx)
	looked := beside(func() {
		if e.Presence != nil {
			s.deposeTheGone(looking, e, prefix+"/", peaceful)
		}
	})
	defer func() { done(); <-looked }()
	return election.Campaign(ctx, s.identity)
}

// beside runs do in a goroutine and closes done when it has ended.
func beside(do func()) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
	}()
	return ended
}

// lost returns true when the key that was created at a revision no longer exists, and false when
// ctx ends first.
func (s *Elections) lost(ctx context.Context, key string, created int64) bool {
	for ctx.Err() == nil {
		resp, err := s.client.Get(ctx, key)
		if err == nil {
			if len(resp.Kvs) == 0 || resp.Kvs[0].CreateRevision != created {
				return true
			}
			s.awaitDeletion(ctx, key, resp.Header.Revision+1)
		}
		// The watch may have ended for another reason than a deletion.
		backoff.Sleep(ctx, lookPause)
	}
	return false
}

// awaitDeletion returns when the key is deleted at or after a revision, or when the watch on it
// ends.
func (s *Elections) awaitDeletion(ctx context.Context, key string, revision int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for resp := range s.client.Watch(ctx, key, clientv3.WithRev(revision), clientv3.WithFilterPut()) {
		if resp.Err() != nil || len(resp.Events) > 0 {
			return
		}
	}
}

// resigning returns the client with a context that ends resignTimeout after ctx, or with release. etcd's
// library resigns a candidate whose campaign was cancelled within the client's context only: without etcd,
// that would never end.
func (s *Elections) resigning(ctx context.Context) (client *clientv3.Client, release func()) {
	bounded, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(resignTimeout, cancel) })
	client = clientv3.NewCtxClient(bounded)
	client.KV, client.Lease, client.Watcher = s.client.KV, s.client.Lease, s.client.Watcher
	return client, func() { stop(); cancel() }
}

// session creates a lease that client keeps alive. ctx bounds the creation, sessionCtx the lifetime.
func (s *Elections) session(ctx, sessionCtx context.Context, client *clientv3.Client) (*concurrency.Session, error) {
	lease, err := s.client.Grant(ctx, int64(leaseTTL/time.Second))
	if err != nil {
		return nil, fmt.Errorf("granting the lease of an election: %w", etcd.APIError(err))
	}
	session, err := concurrency.NewSession(client, concurrency.WithContext(sessionCtx),
		concurrency.WithLease(lease.ID), concurrency.WithTTL(int(leaseTTL/time.Second)))
	if err != nil {
		return nil, fmt.Errorf("keeping the lease of an election: %w", err)
	}
	return session, nil
}

// identity returns a name that distinguishes this process from every other one in elections.
func identity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	var nonce [6]byte
	_, _ = rand.Read(nonce[:]) // never fails
	return host + "_" + hex.EncodeToString(nonce[:])
}
