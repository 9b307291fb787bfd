package deadline_test

import (
	"errors"
	"net"
	"os"
	"testing"

	"github.com/garboard/garboard/libs/bus/bushttp/internal/deadline"
)

// TestExceeded: the error is what callers of a net.Conn look for. crypto/tls looks at the error itself, and not at
// what it wraps.
func TestExceeded(t *testing.T) {
	err := deadline.Exceeded("reading over NATS")
	timeout, ok := err.(net.Error)                                                                    //nolint:errorlint // as crypto/tls does
	if !ok || !timeout.Timeout() || !timeout.Temporary() || !errors.Is(err, os.ErrDeadlineExceeded) { //nolint:staticcheck // as crypto/tls does
		t.Errorf("got %#v", err)
	}
	if err.Error() != "reading over NATS: i/o timeout" {
		t.Errorf("it says %q", err)
	}
}
