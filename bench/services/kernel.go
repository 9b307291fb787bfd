package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// kernel tells when the kernel has packet rules that name an address.
type kernel struct {
	socket int
	buffer []byte
}

const (
	// rulesGroup is the multicast group of changes of nftables.
	rulesGroup = 7
	// notices is the size of the queue of changes, in bytes.
	notices = 64 << 20
	// lookFor is how long follow waits at a time.
	lookFor = 100 * time.Millisecond
)

func openKernel() (*kernel, error) {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, fmt.Errorf("following the kernel's packet rules: %w", err)
	}
	wait := unix.NsecToTimeval(lookFor.Nanoseconds())
	err = errors.Join(
		unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, notices),
		unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
		unix.Bind(socket, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptInt(socket, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, rulesGroup))
	if err != nil {
		_ = unix.Close(socket)
		return nil, fmt.Errorf("following the kernel's packet rules: %w", err)
	}
	return &kernel{socket: socket, buffer: make([]byte, 1<<20)}, nil
}

// named returns when the kernel committed something that names the address, within patience.
func (k *kernel) named(address netip.Addr) (time.Time, error) {
	for began := time.Now(); time.Since(began) < patience; {
		n, _, err := unix.Recvfrom(k.socket, k.buffer, 0)
		now := time.Now()
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) || errors.Is(err, unix.ENOBUFS):
			continue
		case err != nil:
			return now, fmt.Errorf("following the kernel's packet rules: %w", err)
		}
		if bytes.Contains(k.buffer[:n], address.AsSlice()) {
			return now, nil
		}
	}
	return time.Time{}, fmt.Errorf("no packet rule names %s after %v", address, patience)
}

func (k *kernel) close() { _ = unix.Close(k.socket) }
