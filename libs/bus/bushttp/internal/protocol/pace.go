package protocol

import "time"

const (
	// Patience is how long an end may be silent, by default, before the other considers it gone.
	Patience = 15 * time.Second
	// BeatsInPatience is how often an end sends a message within the other's patience.
	BeatsInPatience = 5
	// MaxWindow is how many bytes the writer of a body may be ahead of its reader at most.
	MaxWindow = 1 << 20
)
