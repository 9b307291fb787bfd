package apiserver

import (
	"fmt"
	"net"
	"net/netip"
	"os"
)

// serviceCIDR is the range of service addresses; complete has checked it.
func (c Config) serviceCIDR() netip.Prefix {
	prefix, err := netip.ParsePrefix(c.ServiceCIDR)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix.Masked()
}

// hosts are the names and addresses that the serving certificate has.
func (c Config) hosts(listening net.Addr) ([]string, error) {
	hosts := []string{
		"localhost", "127.0.0.1", "::1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		c.serviceCIDR().Addr().Next().String(),
	}
	hosts = append(hosts, c.Hosts...)
	if name, err := os.Hostname(); err == nil && name != "" {
		hosts = append(hosts, name)
	}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	address, ok := addrPort(listening)
	switch {
	case !ok:
	case address.Addr().IsUnspecified():
		own, err := ownAddresses()
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

// advertise is the address at which pods reach a server that listens at an address; the zero
// value if they cannot, since it is a loopback address.
func advertise(listening net.Addr) netip.AddrPort {
	address, ok := addrPort(listening)
	if !ok || address.Addr().IsLoopback() {
		return netip.AddrPort{}
	}
	if !address.Addr().IsUnspecified() {
		return address
	}
	own, err := ownAddresses()
	if err != nil || len(own) == 0 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(own[0], address.Port())
}

func addrPort(address net.Addr) (netip.AddrPort, bool) {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	parsed := tcp.AddrPort()
	return netip.AddrPortFrom(parsed.Addr().Unmap().WithZone(""), parsed.Port()), parsed.IsValid()
}

// ownAddresses are this machine's global addresses, IPv4 first.
func ownAddresses() ([]netip.Addr, error) {
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
