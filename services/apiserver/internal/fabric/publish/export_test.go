package publish

import "github.com/garboard/garboard/services/apiserver/internal/storage/election"

// NewPresence returns a publisher's view of which others are there.
func NewPresence(peers Peers, name string) election.Presence { return newPresence(peers, name) }
