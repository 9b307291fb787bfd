package bus_test

import (
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus"
)

// TestInboxOf checks that the inbox part reveals nothing of the secret, and is one token.
func TestInboxOf(t *testing.T) {
	a, b := bus.InboxOf("secret"), bus.InboxOf("secret2")
	if a == b || a != bus.InboxOf("secret") || len(a) != 32 || strings.ContainsAny(a, ".*> ~") || strings.Contains(a, "secret") {
		t.Errorf("%q and %q", a, b)
	}
}
