package election

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/backoff"
)

const (
	// lookPeriod is how often a candidate checks that the leader is alive. lookPause is how soon it
	// checks again if the leader is not.
	lookPeriod = time.Second
	lookPause  = 200 * time.Millisecond
	// lookTimeout bounds one check in etcd.
	lookTimeout = 2 * time.Second
)

// Presence reports whether the candidates of an election are alive, faster than their leases do. It
// may be wrong: a candidate thought to be gone is merely deposed.
type Presence interface {
	// Announce lets others find this process as a candidate until silence is called. It does not
	// wait until they can.
	Announce(ctx context.Context, candidate string) (silence func(), err error)
	// Gone reports whether a candidate is certainly not there at this moment. In doubt it returns
	// false.
	Gone(ctx context.Context, candidate string) bool
}

// leader is the process that leads an election, or is about to.
type leader struct {
	key       string
	created   int64
	candidate string
}

// deposeTheGone deposes, until ctx ends, any leader that is gone at two checks. The election's keys
// begin with prefix. It deposes no leader before peaceful has passed. It deletes the leader's key,
// so that the next candidate is elected at once.
func (s *Elections) deposeTheGone(ctx context.Context, e Election, prefix string, peaceful time.Time) {
	var suspect leader
	wait := time.Until(peaceful)
	for backoff.Sleep(ctx, wait) {
		found, ok := s.leader(ctx, prefix)
		switch {
		case !ok || found.candidate == s.identity || !e.Presence.Gone(ctx, found.candidate):
			suspect, wait = leader{}, lookPeriod
		case found != suspect:
			suspect, wait = found, lookPause
		default:
			if s.depose(ctx, found) {
				s.logger.WarnContext(ctx, "deposed an absent leader", "election", e.Name, "leader", found.candidate)
				if e.Deposed != nil {
					e.Deposed()
				}
			}
			// The next candidate may be gone too.
			suspect, wait = leader{}, 0
		}
	}
}

// leader returns the leader of the election whose keys begin with prefix; false if there is none,
// or if etcd does not answer.
func (s *Elections) leader(ctx context.Context, prefix string) (leader, bool) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, prefix, clientv3.WithFirstCreate()...)
	if err != nil || len(resp.Kvs) == 0 {
		return leader{}, false
	}
	kv := resp.Kvs[0]
	return leader{key: string(kv.Key), created: kv.CreateRevision, candidate: string(kv.Value)}, true
}

// depose deletes the key of a leader, unless the key has a new owner by now.
func (s *Elections) depose(ctx context.Context, l leader) bool {
	// ctx ends as soon as this process is elected, which may be before etcd's answer.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.created)).
		Then(clientv3.OpDelete(l.key)).Commit()
	return err == nil && resp.Succeeded
}
