package nft

import (
	"encoding/binary"
	"net/netip"

	"github.com/garboard/garboard/services/nodeagent/internal/proxy/ruleset"
)

// unknownKind is the kind of a set that is none of ours by its form.
const unknownKind ruleset.Kind = 255

func netlinkFamily(f ruleset.Family) uint8 {
	if f == ruleset.IPv4 {
		return familyIPv4
	}
	return familyIPv6
}

// addressLength returns the length of an address in bytes.
func addressLength(f ruleset.Family) int {
	if f == ruleset.IPv4 {
		return 4
	}
	return 16
}

func addressType(f ruleset.Family) uint32 {
	if f == ruleset.IPv4 {
		return typeIPv4
	}
	return typeIPv6
}

// keyLength returns the length of a set's keys. Each part is padded to 4 bytes.
func keyLength(f ruleset.Family, kind ruleset.Kind) int {
	switch kind {
	case ruleset.Addresses:
		return addressLength(f)
	case ruleset.Services:
		return addressLength(f) + 8
	case ruleset.Ports:
		return 8
	case ruleset.Connections:
		return 2*addressLength(f) + 8
	}
	return 0
}

// keyType returns the type of a set's keys, by which nft shows them.
func keyType(f ruleset.Family, kind ruleset.Kind) uint32 {
	const port = typeProtocol<<typeBits | typeService
	switch kind {
	case ruleset.Addresses:
		return addressType(f)
	case ruleset.Services:
		return addressType(f)<<(2*typeBits) | port
	case ruleset.Ports:
		return port
	case ruleset.Connections:
		return addressType(f)<<(3*typeBits) | addressType(f)<<(2*typeBits) | port
	}
	return 0
}

// appendKey adds a key in the kernel's form.
func appendKey(buf []byte, kind ruleset.Kind, key ruleset.Key) []byte {
	if kind == ruleset.Connections {
		buf = append(buf, key.Source.AsSlice()...)
	}
	if kind != ruleset.Ports {
		buf = append(buf, key.Addr.AsSlice()...)
	}
	if kind != ruleset.Addresses {
		buf = append(buf, byte(key.Protocol), 0, 0, 0)
		buf = append(binary.BigEndian.AppendUint16(buf, key.Port), 0, 0)
	}
	return buf
}

// parseKey is the opposite of appendKey. It reports false for a key of another length.
func parseKey(f ruleset.Family, kind ruleset.Kind, buf []byte) (ruleset.Key, bool) {
	var key ruleset.Key
	if length := keyLength(f, kind); length == 0 || len(buf) != length {
		return key, false
	}
	address := func() netip.Addr {
		addr, _ := netip.AddrFromSlice(buf[:addressLength(f)])
		buf = buf[addressLength(f):]
		return addr
	}
	if kind == ruleset.Connections {
		key.Source = address()
	}
	if kind != ruleset.Ports {
		key.Addr = address()
	}
	if kind != ruleset.Addresses {
		key.Protocol, key.Port = ruleset.Protocol(buf[0]), binary.BigEndian.Uint16(buf[4:])
	}
	return key, true
}

// kindOf returns the kind of a shared set.
func kindOf(set string) ruleset.Kind {
	switch set {
	case ruleset.ServiceIPs, ruleset.AbsentIPs, ruleset.FirewallIPs:
		return ruleset.Services
	case ruleset.ServiceNodePorts, ruleset.AbsentNodePorts:
		return ruleset.Ports
	case ruleset.Hairpins:
		return ruleset.Connections
	}
	return ruleset.Addresses
}
