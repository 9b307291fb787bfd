package conntrack

import (
	"net"
	"net/netip"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// Stale tells which UDP connections are to end: those to a frontend that go to none of the endpoints
// that serve it. Connections to anything else stay.
type Stale struct {
	serving map[ruleset.Frontend]map[netip.AddrPort]bool
	own     map[netip.Addr]bool
}

// NewStale returns what tells the stale connections to the ports of Services. own has the addresses
// that accept node ports: a port of another machine may have the same number.
func NewStale(datagrams []ruleset.Datagrams, own []netip.Addr) *Stale {
	s := &Stale{serving: make(map[ruleset.Frontend]map[netip.AddrPort]bool), own: make(map[netip.Addr]bool)}
	for _, d := range datagrams {
		serving := make(map[netip.AddrPort]bool, len(d.Serving))
		for _, ep := range d.Serving {
			serving[ep] = true
		}
		for _, frontend := range d.Frontends {
			s.serving[frontend] = serving
		}
	}
	for _, addr := range own {
		s.own[addr] = true
	}
	return s
}

// Match reports whether a UDP connection is stale: its first datagram went to, and answers come from
// the endpoint.
func (s *Stale) Match(to, endpoint netip.AddrPort) bool {
	frontend := ruleset.Frontend{Addr: to.Addr(), Protocol: ruleset.UDP, Port: to.Port()}
	serving, ok := s.serving[frontend]
	if !ok && s.own[to.Addr()] {
		frontend.Addr = netip.Addr{}
		serving, ok = s.serving[frontend]
	}
	return ok && !serving[endpoint]
}

func addrPort(ip net.IP, port uint16) netip.AddrPort {
	addr, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(addr.Unmap(), port)
}
