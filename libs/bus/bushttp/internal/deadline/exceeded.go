package deadline

import (
	"net"
	"os"
)

// exceeded is the error of an operation whose deadline has passed.
type exceeded struct{ doing string }

var _ net.Error = exceeded{}

// Exceeded returns the error of an operation whose deadline has passed. It is a net.Error, as callers of a
// net.Conn expect: crypto/tls goes on after one that is temporary, and net/http's server relies on that.
func Exceeded(doing string) error { return exceeded{doing} }

// Error says what was done.
func (e exceeded) Error() string { return e.doing + ": " + os.ErrDeadlineExceeded.Error() }

// Unwrap returns os.ErrDeadlineExceeded.
func (exceeded) Unwrap() error { return os.ErrDeadlineExceeded }

// Timeout reports true.
func (exceeded) Timeout() bool { return true }

// Temporary reports true: with a later deadline the operation can go on.
func (exceeded) Temporary() bool { return true }
