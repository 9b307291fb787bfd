package store

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// lookPeriod is how often a candidate looks whether who leads is there, lookPause after how
	// long it looks again if he is not.
	lookPeriod = time.Second
	lookPause  = 200 * time.Millisecond
	// lookTimeout bounds a look at etcd.
	lookTimeout = 2 * time.Second
)

// Presence tells whether the processes that campaign for an election are there, faster than
// their leases do. It may err: who is thought to be gone is only deposed.
type Presence interface {
	// Announce has others find this process as a candidate, until silence is called. It does
	// not wait for them to be able to.
	Announce(ctx context.Context, candidate string) (silence func(), err error)
	// Gone says that a candidate certainly is not there at this moment. In doubt it is false.
	Gone(ctx context.Context, candidate string) bool
}

// leader is who leads an election, or is about to.
type leader struct {
	key       string
	created   int64
	candidate string
}

// deposeTheGone deposes, until ctx ends, whoever leads the election whose keys begin with
// prefix, if he is gone at two looks; nobody before peaceful is over. It deletes his key, so
// that the next in line is elected at once.
func (s *Store) deposeTheGone(ctx context.Context, e Election, prefix string, peaceful time.Time) {
	var suspect leader
	wait := time.Until(peaceful)
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		found, ok := s.leader(ctx, prefix)
		switch {
		case !ok || found.candidate == s.identity || !e.Presence.Gone(ctx, found.candidate):
			suspect, wait = leader{}, lookPeriod
		case found != suspect:
			suspect, wait = found, lookPause
		default:
			if s.depose(ctx, found) {
				s.logger.WarnContext(ctx, "deposed the leader of an election, who is gone", "election", e.Name, "leader", found.candidate)
				if e.Deposed != nil {
					e.Deposed()
				}
			}
			// The next in line may be gone too.
			suspect, wait = leader{}, 0
		}
	}
}

// leader is who leads the election whose keys begin with prefix; false if that cannot be told,
// or if nobody does.
func (s *Store) leader(ctx context.Context, prefix string) (leader, bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, prefix, clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		return leader{}, false
	}
	kv := resp.Kvs[0]
	return leader{key: string(kv.Key), created: kv.CreateRevision, candidate: string(kv.Value)}, true
}

// depose deletes the key of a leader, unless it is another's by now.
func (s *Store) depose(ctx context.Context, l leader) bool {
	// The looking ends as soon as this process is elected, which may be before etcd's answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.created)).
		Then(clientv3.OpDelete(l.key)).Commit()
	return err == nil && resp.Succeeded
}
