package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/libs/backoff"
)

// compactKey is where apiservers agree on which one compacts. It is kube-apiserver's key
// (apiserver, storage/etcd3/compact.go), so that both can share one etcd. It is outside every
// prefix, since all planes on one etcd share its revisions. Its version counts the turns; its value
// is the revision that the last turn compacted to.
const compactKey = "compact_rev_key"

// CompactEvery compacts the cluster once per interval, to its revision of one interval ago, until
// ctx ends. However many apiservers run, one of them compacts in each interval. Compaction never
// removes current values, whatever their age, and a follower that is less than an interval behind
// misses nothing.
func (c *Connection) CompactEvery(ctx context.Context, interval time.Duration) {
	var seen turn
	// Take the first look at the start, not an interval later. Otherwise apiservers that restart
	// more often than every two intervals would let etcd grow until it is full.
	for {
		next, compacted, err := c.compact(ctx, seen)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.logger.WarnContext(ctx, "failed to compact etcd", "endpoints", c.Client.Endpoints(), "err", err)
		case compacted > 0:
			c.logger.InfoContext(ctx, "compacted etcd", "endpoints", c.Client.Endpoints(), "revision", compacted)
		}
		seen = next
		// The interval is counted from the answer, which may have taken long.
		if !backoff.Sleep(ctx, interval) {
			return
		}
	}
}

// turn is what an apiserver knows of past compactions: their number, and the revision at which it
// learned that.
type turn struct {
	count    int64
	revision int64
}

// compact takes the next turn, unless another apiserver took one after seen; then compact learns of
// that turn and waits for the next. The turn's revision is at least one interval old: an apiserver
// takes a turn only if it saw the previous one an interval ago. The first time, with nothing seen
// yet, it compacts nothing.
func (c *Connection) compact(ctx context.Context, seen turn) (next turn, compacted int64, err error) {
	resp, err := c.Client.Txn(ctx).
		If(clientv3.Compare(clientv3.Version(compactKey), "=", seen.count)).
		Then(clientv3.OpPut(compactKey, strconv.FormatInt(seen.revision, 10))).
		Else(clientv3.OpGet(compactKey)).Commit()
	if err != nil {
		return seen, 0, fmt.Errorf("taking the turn to compact: %w", APIError(err))
	}
	if !resp.Succeeded {
		kv := Answered(resp, 0)
		if kv == nil {
			// The key was removed: the count starts over.
			return turn{revision: resp.Header.Revision}, 0, nil
		}
		return turn{count: kv.Version, revision: resp.Header.Revision}, 0, nil
	}
	next = turn{count: seen.count + 1, revision: resp.Header.Revision}
	if seen.revision == 0 {
		return next, 0, nil
	}
	if _, err := c.Client.Compact(ctx, seen.revision); err != nil {
		if errors.Is(err, rpctypes.ErrCompacted) {
			return next, 0, nil // another client compacted further
		}
		return next, 0, fmt.Errorf("compacting to revision %d: %w", seen.revision, APIError(err))
	}
	return next, seen.revision, nil
}
