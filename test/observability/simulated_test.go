//go:build !containers

package observability_test

import (
	"testing"

	"github.com/garboard/garboard/test/e2e/plane"
)

// realNode is the node with containers, which this build does not have.
type realNode struct{}

func newRealNode(*testing.T) *realNode { return nil }

func (n *realNode) address(t *testing.T) string { return plane.FreeAddress(t) }

func (n *realNode) start(*testing.T, *deployment) {}
