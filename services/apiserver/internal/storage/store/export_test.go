package store

import "context"

// Turn is what an apiserver knows of past compactions.
type Turn = turn

// CompactOnce takes one turn of Compact.
func (s *Store) CompactOnce(ctx context.Context, seen Turn) (next Turn, compacted int64, err error) {
	return s.compact(ctx, seen)
}

// Remembers reports whether a lease was seen in the known history.
func (s *Store) Remembers(key string) bool {
	_, ok := s.leases.sightings.get(key)
	return ok
}
