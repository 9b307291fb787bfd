package plane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress returns a loopback address that was free a moment ago. Its port is below the system's
// ephemeral ports, so that no other process gets it by chance a moment later.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err != nil {
			continue // The port is in use.
		}
		defer func() { _ = listener.Close() }()
		return listener.Addr().String()
	}
	t.Fatal("no free port")
	return ""
}
