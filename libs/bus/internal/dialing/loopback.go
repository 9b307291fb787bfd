package dialing

import (
	"fmt"
	"net"
	"net/netip"
)

// Loopback connects only to this machine.
type Loopback struct {
	Dialer
	// Refusal is why it does not connect to others.
	Refusal error
}

// Dial connects to address unless it is on another machine.
func (d Loopback) Dial(network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", address, err)
	}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.Unmap().IsLoopback() {
		return nil, fmt.Errorf("%s is on another machine: %w", address, d.Refusal)
	}
	return d.Dialer.Dial(network, address)
}
