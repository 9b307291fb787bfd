//go:build !linux

package dns

import "syscall"

// maxSharing is how many sockets can share an address for UDP.
const maxSharing = 1

// share does nothing where sockets cannot share the questions of an address.
func share(string, string, syscall.RawConn) error { return nil }
