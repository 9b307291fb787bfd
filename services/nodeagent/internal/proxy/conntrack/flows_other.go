//go:build !linux

package conntrack

import (
	"errors"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

var errPlatform = errors.New("connection tracking is supported on Linux only")

// Flows is supported on Linux only.
type Flows struct{}

// Open returns an error.
func Open() (*Flows, error) { return nil, errPlatform }

// Close returns an error.
func (*Flows) Close() error { return errPlatform }

// End returns an error.
func (*Flows) End(ruleset.Family, *Stale) (int, error) { return 0, errPlatform }
