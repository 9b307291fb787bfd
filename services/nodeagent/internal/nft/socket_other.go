//go:build !linux

package nft

import "errors"

var errPlatform = errors.New("nftables is supported on Linux only")

type socket struct{}

func open() (*socket, error) { return nil, errPlatform }

func (*socket) close() error { return errPlatform }

func (*socket) send([]byte) error { return errPlatform }

func (*socket) receive(bool) ([]byte, error) { return nil, errPlatform }

func (*socket) drain() error { return errPlatform }

func answered(received) error { return errPlatform }
