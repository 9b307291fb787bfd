package etcd

import "context"

// Turn is what an apiserver knows of past compactions.
type Turn = turn

// CompactOnce takes one turn of CompactEvery.
func (c *Connection) CompactOnce(ctx context.Context, seen Turn) (next Turn, compacted int64, err error) {
	return c.compact(ctx, seen)
}
