package bushttp

import (
	"errors"
	"fmt"
	"syscall"
)

// Reasons why a call failed. Errors of a call that was refused or lost before its answer began
// are syscall.ECONNREFUSED or syscall.ECONNRESET besides, as those of a call over TCP.
var (
	// ErrNoServer says that no apiserver takes requests over NATS now.
	ErrNoServer = errors.New("no apiserver takes requests over NATS")
	// ErrLost says that the other end is gone, or that parts of a call were lost.
	ErrLost = errors.New("the other end of a call over NATS is gone")
	// ErrAborted says that the other end gave the call up.
	ErrAborted = errors.New("the other end of a call over NATS gave it up")
	// ErrClosed says that this end was closed.
	ErrClosed = errors.New("the HTTP transport over NATS is closed")
)

// refused is an error of a call that has not begun; callers may try it again.
func refused(err error) error {
	return fmt.Errorf("calling the API over NATS: %w: %w", err, syscall.ECONNREFUSED)
}

// reset is an error of a call that may have been done.
func reset(err error) error {
	return fmt.Errorf("calling the API over NATS: %w: %w", err, syscall.ECONNRESET)
}
