package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	// sendBuffer bounds a transaction, and receiveBuffer the answers to it, in bytes.
	sendBuffer    = 64 << 20
	receiveBuffer = 4 << 20
	// datagramSize is more than the kernel puts into one datagram.
	datagramSize = 1 << 17
	// timeoutSeconds bounds the wait for an answer.
	timeoutSeconds = 10
)

// socket is a netlink socket of the netfilter family.
type socket struct {
	fd  int
	buf []byte
}

func open() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("opening a netlink socket: %w", err)
	}
	s := &socket{fd: fd, buf: make([]byte, datagramSize)}
	err = errors.Join(
		unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: timeoutSeconds}),
		// Errors repeat the header of the message at fault only.
		unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, 1),
		s.buffer(unix.SO_SNDBUFFORCE, unix.SO_SNDBUF, sendBuffer),
		s.buffer(unix.SO_RCVBUFFORCE, unix.SO_RCVBUF, receiveBuffer),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up a netlink socket: %w", err), s.close())
	}
	return s, nil
}

// buffer sets the size of a buffer. In a user namespace, the system's limit holds.
func (s *socket) buffer(force, usual, size int) error {
	if unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, force, size) == nil {
		return nil
	}
	return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, usual, size)
}

func (s *socket) close() error { return unix.Close(s.fd) }

func (s *socket) send(buf []byte) error {
	for {
		err := unix.Sendto(s.fd, buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// receive returns the next datagram, valid until the next call. Without wait it returns nil when
// there is none.
func (s *socket) receive(wait bool) ([]byte, error) {
	flags := 0
	if !wait {
		flags = unix.MSG_DONTWAIT
	}
	for {
		n, _, err := unix.Recvfrom(s.fd, s.buf, flags)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN) && !wait:
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("receiving from the kernel: %w", err)
		}
		return s.buf[:n], nil
	}
}

// drain discards what an earlier call has left.
func (s *socket) drain() error {
	for {
		datagram, err := s.receive(false)
		if errors.Is(err, unix.ENOBUFS) {
			// The kernel had more to say than there was room; it reports this once.
			continue
		}
		if datagram == nil || err != nil {
			return err
		}
	}
}

// answered returns the error that an answer reports, or nil for an acknowledgement.
func answered(m received) error {
	if len(m.payload) < 4 {
		return nil
	}
	if code := int32(binary.NativeEndian.Uint32(m.payload)); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
