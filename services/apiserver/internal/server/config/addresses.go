package config

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// ServiceCIDRs returns the ranges of service addresses, the default one first.
func (c Config) ServiceCIDRs() ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for text := range strings.SplitSeq(c.ServiceCIDR, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("the range of service addresses: %w", err)
		}
		ranges = append(ranges, prefix.Masked())
	}
	switch {
	case len(ranges) > 2:
		return nil, fmt.Errorf("the ranges of service addresses, %s, must be at most one of each IP family", c.ServiceCIDR)
	case len(ranges) == 2 && ranges[0].Addr().Is4() == ranges[1].Addr().Is4():
		return nil, fmt.Errorf("the ranges of service addresses, %s and %s, must be of different IP families", ranges[0], ranges[1])
	}
	return ranges, nil
}

// ServingHosts returns the names and addresses for the serving certificate.
func (c Config) ServingHosts(listening net.Addr) ([]string, error) {
	ranges, err := c.ServiceCIDRs()
	if err != nil {
		return nil, err
	}
	hosts := []string{
		"localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		ranges[0].Addr().Next().String(),
	}
	hosts = append(hosts, c.Serving.Hosts...)
	if name, err := os.Hostname(); err == nil && name != "" {
		hosts = append(hosts, name)
	}
	if host, _, err := net.SplitHostPort(c.Serving.Listen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	address, ok := addrPort(listening)
	switch {
	case !ok:
	case address.Addr().IsUnspecified():
		own, err := OwnAddresses()
		if err != nil {
			return nil, err
		}
		for _, address := range own {
			hosts = append(hosts, address.String())
		}
	default:
		hosts = append(hosts, address.Addr().String())
	}
	return hosts, nil
}

// Advertised returns the address at which pods reach a server that listens at the given address. It
// returns the zero value if they cannot, because the server listens only on loopback.
func (s Serving) Advertised(listening net.Addr) (netip.AddrPort, error) {
	address, ok := addrPort(listening)
	if s.AdvertiseAddress != "" {
		given, err := netip.ParseAddr(s.AdvertiseAddress)
		if err != nil || given.IsUnspecified() || given.IsLoopback() || given.IsMulticast() || given.IsLinkLocalUnicast() {
			return netip.AddrPort{}, fmt.Errorf("the address by which pods reach the server, %q, is not an IP address that they can reach",
				s.AdvertiseAddress)
		}
		return netip.AddrPortFrom(given.WithZone(""), address.Port()), nil
	}
	if !ok || address.Addr().IsLoopback() {
		return netip.AddrPort{}, nil
	}
	if !address.Addr().IsUnspecified() {
		return address, nil
	}
	own, err := OwnAddresses()
	if err != nil || len(own) == 0 {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(own[0], address.Port()), nil
}

// External returns the address by which clients reach a server that listens at the given address.
func (s Serving) External(listening net.Addr) string {
	if address, err := s.Advertised(listening); err == nil && address.IsValid() {
		return address.String()
	}
	return listening.String()
}

func addrPort(address net.Addr) (netip.AddrPort, bool) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	parsed := tcp.AddrPort()
	return netip.AddrPortFrom(parsed.Addr().Unmap().WithZone(""), parsed.Port()), parsed.IsValid()
}

// OwnAddresses returns this machine's global unicast addresses, IPv4 first.
func OwnAddresses() ([]netip.Addr, error) {
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("reading this machine's addresses: %w", err)
	}
	var four, six []netip.Addr
	for _, address := range found {
		prefix, err := netip.ParsePrefix(address.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			four = append(four, prefix.Addr())
		} else {
			six = append(six, prefix.Addr())
		}
	}
	return append(four, six...), nil
}
