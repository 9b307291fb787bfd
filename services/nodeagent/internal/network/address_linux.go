package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// loopback is the interface that gets the DNS server's address. Packets of pods for it are delivered here, and
// it is on no link.
const loopback = "lo"

// addAddress gives the loopback interface an address.
func addAddress(address netip.Addr) error {
	link, of, err := loopbackAddress(address)
	if err == nil {
		err = netlink.AddrReplace(link, of)
	}
	if err != nil {
		return fmt.Errorf("giving the loopback interface the address %s: %w", address, err)
	}
	return nil
}

// removeAddress takes an address away from the loopback interface.
func removeAddress(address netip.Addr) error {
	if !address.IsValid() {
		return nil
	}
	link, of, err := loopbackAddress(address)
	if err == nil {
		err = netlink.AddrDel(link, of)
	}
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("taking the address %s from the loopback interface: %w", address, err)
	}
	return nil
}

func loopbackAddress(address netip.Addr) (netlink.Link, *netlink.Addr, error) {
	link, err := netlink.LinkByName(loopback)
	if err != nil {
		return nil, nil, err
	}
	bits := address.BitLen()
	return link, &netlink.Addr{IPNet: &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, bits)}}, nil
}
