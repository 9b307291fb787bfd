package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// compactKey is where apiservers agree on who compacts; kube-apiserver's (apiserver,
// storage/etcd3/compact.go), so that both may be on one etcd. It is outside of every prefix,
// since all planes on one etcd share its revisions. Its version counts the turns, its value is
// the revision that the last turn compacted to.
const compactKey = "compact_rev_key"

// Compact makes every etcd cluster forget, once per interval, what was before its revision one
// interval ago, until ctx ends. Of any number of apiservers, one compacts in each interval.
// What etcd holds now is never lost, whatever its age, and whoever follows etcd and is less
// than an interval behind misses nothing. An interval of 0 compacts nothing.
func (s *Store) Compact(ctx context.Context, interval time.Duration) error {
	if interval <= 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range s.Clusters() {
		group.Go(func() error {
			one.compactEvery(ctx, interval)
			return nil
		})
	}
	return group.Wait()
}

func (s *Store) compactEvery(ctx context.Context, interval time.Duration) {
	var seen turn
	// The first look is at the start, not an interval later: apiservers that are started again before they
	// have seen two intervals would let etcd grow until it is full.
	for {
		next, compacted, err := s.compact(ctx, seen)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.logger.WarnContext(ctx, "compacting etcd", "endpoints", s.client.Endpoints(), "error", err)
		case compacted > 0:
			s.logger.InfoContext(ctx, "compacted etcd", "endpoints", s.client.Endpoints(), "revision", compacted)
		}
		seen = next
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval): // after an answer, which may have taken long
		}
	}
}

// turn is what an apiserver knows of the compactions: how many there were, and the revision
// at which it learnt so.
type turn struct {
	count    int64
	revision int64
}

// compact takes the next turn, unless another apiserver took it since seen: then it learns of
// that and waits for the one after. The turn's revision is old by an interval at least: an
// apiserver takes a turn only when it has seen the one before an interval ago. The first time,
// when it has seen nothing, nothing is compacted.
func (s *Store) compact(ctx context.Context, seen turn) (next turn, compacted int64, err error) {
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(compactKey), "=", seen.count)).
		Then(clientv3.OpPut(compactKey, strconv.FormatInt(seen.revision, 10))).
		Else(clientv3.OpGet(compactKey)).Commit()
	if err != nil {
		return seen, 0, fmt.Errorf("taking the turn to compact: %w", statusOf(err))
	}
	if !resp.Succeeded {
		kv := found(resp)
		if kv == nil {
			// It was removed: the count begins anew.
			return turn{revision: resp.Header.Revision}, 0, nil
		}
		return turn{count: kv.Version, revision: resp.Header.Revision}, 0, nil
	}
	next = turn{count: seen.count + 1, revision: resp.Header.Revision}
	if seen.revision == 0 {
		return next, 0, nil
	}
	if _, err := s.client.Compact(ctx, seen.revision); err != nil {
		if errors.Is(err, rpctypes.ErrCompacted) {
			return next, 0, nil // somebody else did more
		}
		return next, 0, fmt.Errorf("compacting to revision %d: %w", seen.revision, statusOf(err))
	}
	return next, seen.revision, nil
}
