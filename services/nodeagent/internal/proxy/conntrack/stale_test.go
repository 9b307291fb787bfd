package conntrack

import (
	"net"
	"net/netip"
	"testing"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

func TestStale(t *testing.T) {
	at := netip.MustParseAddrPort
	front := func(addr string, port uint16) ruleset.Frontend {
		a, _ := netip.ParseAddr(addr)
		return ruleset.Frontend{Addr: a, Protocol: ruleset.UDP, Port: port}
	}
	stale := NewStale([]ruleset.Datagrams{
		{Frontends: []ruleset.Frontend{front("10.96.0.10", 53), front("", 30053)}, Serving: []netip.AddrPort{at("10.244.1.2:5353")}},
		{Frontends: []ruleset.Frontend{front("fd00::a", 53)}},
	}, []netip.Addr{netip.MustParseAddr("192.0.2.1")})
	for name, c := range map[string]struct {
		to, endpoint string
		want         bool
	}{
		"serving":                    {"10.96.0.10:53", "10.244.1.2:5353", false},
		"gone":                       {"10.96.0.10:53", "10.244.1.9:5353", true},
		"another port of a serving":  {"10.96.0.10:53", "10.244.1.2:53", true},
		"never translated":           {"10.96.0.10:53", "10.96.0.10:53", true},
		"another port":               {"10.96.0.10:54", "10.244.1.9:5353", false},
		"another Service":            {"10.96.0.11:53", "10.244.1.9:5353", false},
		"node port, serving":         {"192.0.2.1:30053", "10.244.1.2:5353", false},
		"node port, gone":            {"192.0.2.1:30053", "10.244.1.9:5353", true},
		"same port of other machine": {"198.51.100.7:30053", "198.51.100.7:30053", false},
		"no endpoints at all":        {"[fd00::a]:53", "[fd00::9]:53", true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := stale.Match(at(c.to), at(c.endpoint)); got != c.want {
				t.Errorf("Match(%s, %s) = %v", c.to, c.endpoint, got)
			}
		})
	}
}

func TestAddrPort(t *testing.T) {
	for _, want := range []string{"10.1.2.3:53", "[fd00::1]:53"} {
		expected := netip.MustParseAddrPort(want)
		if got := addrPort(net.ParseIP(expected.Addr().String()), 53); got != expected {
			t.Errorf("addrPort = %v, want %v", got, expected)
		}
	}
	if got := addrPort(nil, 1); got.Addr().IsValid() {
		t.Errorf("addrPort(nil) = %v", got)
	}
}
