package store

import "context"

// Turn is what an apiserver knows of the compactions.
type Turn = turn

// CompactOnce takes one turn of Compact.
func (s *Store) CompactOnce(ctx context.Context, seen Turn) (next Turn, compacted int64, err error) {
	return s.compact(ctx, seen)
}
