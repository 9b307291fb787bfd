package bustest

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
)

// holdPort returns a port of the loopback address at which only the test's servers listen until the
// test ends. A port that a server chose would be free while the server is stopped, and another
// program, such as the next package's tests, could get it.
func holdPort(t testing.TB) int {
	t.Helper()
	port, release, err := bind()
	if err != nil {
		t.Fatalf("taking a port: %v", err)
	}
	// Some systems refuse to listen at a port that is already bound; there it cannot be held.
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		release()
		return port
	}
	if err := listener.Close(); err != nil {
		t.Fatalf("taking a port: %v", err)
	}
	t.Cleanup(release)
	return port
}

// bind binds a socket to a free port without listening.
func bind() (port int, release func(), err error) {
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return 0, nil, err
	}
	release = func() { _ = syscall.Close(socket) }
	// With this option other sockets that set it, as all Go listeners do, may bind to the port too.
	err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err == nil {
		err = syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var address syscall.Sockaddr
	if err == nil {
		address, err = syscall.Getsockname(socket)
	}
	at, ok := address.(*syscall.SockaddrInet4)
	if err == nil && !ok {
		err = errors.New("the socket has no IPv4 address")
	}
	if err != nil {
		release()
		return 0, nil, err
	}
	return at.Port, release, nil
}
