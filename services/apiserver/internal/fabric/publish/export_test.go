package publish

import "github.com/garboard/garboard/services/apiserver/internal/storage/store"

// NewPresence returns a publisher's view of which others are there.
func NewPresence(peers Peers, election string) store.Presence { return newPresence(peers, election) }
