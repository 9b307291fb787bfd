package bushttp

import (
	"errors"
	"fmt"
	"syscall"
)

// Reasons why a call failed. If a call was refused or lost before its response began, the error is
// also syscall.ECONNREFUSED or syscall.ECONNRESET, as for a call over TCP.
var (
	// ErrNoServer means that no apiserver, or not the agent of the node, accepts requests over NATS at
	// present.
	ErrNoServer = errors.New("no server takes these requests over NATS")
	// ErrLost means that the other end is gone, or that parts of a call were lost.
	ErrLost = errors.New("the other end of a call over NATS is gone")
	// ErrAborted means that the other end abandoned the call.
	ErrAborted = errors.New("the other end of a call over NATS abandoned it")
	// ErrClosed means that this end was closed.
	ErrClosed = errors.New("the HTTP transport over NATS is closed")
)

// refused returns the error of a call that has not begun; callers may retry it.
func refused(err error) error {
	return fmt.Errorf("calling over NATS: %w: %w", err, syscall.ECONNREFUSED)
}

// reset returns the error of a call that may have been executed.
func reset(err error) error {
	return fmt.Errorf("calling over NATS: %w: %w", err, syscall.ECONNRESET)
}
