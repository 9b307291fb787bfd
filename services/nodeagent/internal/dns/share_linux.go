package dns

import (
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxSharing is how many sockets can share an address for UDP.
const maxSharing = math.MaxInt

// share lets further sockets of this user bind the address of a socket. The kernel gives each the questions of some
// of the clients.
func share(_, _ string, socket syscall.RawConn) error {
	var failed error
	err := socket.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if err != nil {
		return err
	}
	return failed
}
