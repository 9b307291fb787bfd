//go:build !linux

package network

import (
	"errors"
	"net/netip"
)

func addAddress(netip.Addr) error { return errors.New("the DNS server needs Linux") }

func removeAddress(netip.Addr) error { return nil }
