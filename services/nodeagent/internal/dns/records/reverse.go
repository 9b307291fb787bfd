package records

import (
	"net/netip"
	"strconv"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// The numbers of labels of the name of an address: an octet or a nibble each, and two for the zone.
const (
	reverse4 = 4 + 2
	reverse6 = 32 + 2
)

// reverseAddress returns the address that a name such as "4.3.2.1.in-addr.arpa" stands for.
func reverseAddress(name *wire.Name) (netip.Addr, bool) {
	labels := name.Labels()
	if labels != reverse4 && labels != reverse6 || string(name.Label(labels-1)) != "arpa" {
		return netip.Addr{}, false
	}
	switch zone := string(name.Label(labels - 2)); {
	case zone == "in-addr" && labels == reverse4:
		var addr [4]byte
		for i := range addr {
			octet := name.Label(len(addr) - 1 - i)
			n, err := strconv.ParseUint(string(octet), 10, 8)
			if err != nil || len(octet) > 1 && octet[0] == '0' {
				return netip.Addr{}, false
			}
			addr[i] = byte(n)
		}
		return netip.AddrFrom4(addr), true
	case zone == "ip6" && labels == reverse6:
		var addr [16]byte
		for i := range 2 * len(addr) {
			nibble := name.Label(2*len(addr) - 1 - i)
			n, err := strconv.ParseUint(string(nibble), 16, 4)
			if err != nil || len(nibble) != 1 {
				return netip.Addr{}, false
			}
			addr[i/2] = addr[i/2]<<4 | byte(n)
		}
		return netip.AddrFrom16(addr), true
	}
	return netip.Addr{}, false
}
