package store

// Remembers reports whether a lease was seen in the known history.
func (s *Store) Remembers(key string) bool {
	_, ok := s.leases.sightings.get(key)
	return ok
}
