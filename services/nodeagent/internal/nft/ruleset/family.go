package ruleset

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Family is an IP family. Each family has its own table.
type Family uint8

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// FamilyOf returns the family of a valid address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// String returns the name as the API and kube-proxy's metrics spell it.
func (f Family) String() string {
	if f == IPv4 {
		return string(corev1.IPv4Protocol)
	}
	return string(corev1.IPv6Protocol)
}

// Is reports whether an address is valid and of this family.
func (f Family) Is(a netip.Addr) bool { return a.IsValid() && FamilyOf(a) == f }

// Loopback returns the family's loopback range.
func (f Family) Loopback() netip.Prefix {
	if f == IPv4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)
	}
	return netip.PrefixFrom(netip.IPv6Loopback(), 128)
}

// ip returns nft's keyword for the family.
func (f Family) ip() string {
	if f == IPv4 {
		return "ip"
	}
	return "ip6"
}

// Protocol is a transport protocol by its IP protocol number.
type Protocol uint8

// The protocols of Service ports.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// ParseProtocol returns the protocol of a Service or endpoint port. It reports false for a name that
// the API does not have. The empty name means TCP.
func ParseProtocol(p corev1.Protocol) (Protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return TCP, true
	case corev1.ProtocolUDP:
		return UDP, true
	case corev1.ProtocolSCTP:
		return SCTP, true
	}
	return 0, false
}

// String returns nft's keyword.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	}
	return "sctp"
}
