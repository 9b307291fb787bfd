package plane

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddress is an address of the loopback at which nobody listened a moment ago. Its port is below
// those that the system gives to whoever wants any, so that nobody has it by chance a moment later.
func FreeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(20_000)))
		if err != nil {
			continue // It is taken.
		}
		defer func() { _ = listener.Close() }()
		return listener.Addr().String()
	}
	t.Fatal("there is no free port")
	return ""
}
