package nft

import (
	"encoding/binary"
	"net/netip"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
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
	case ruleset.Addresses, ruleset.Ranges:
		return addressLength(f)
	case ruleset.Services:
		return addressLength(f) + 8
	case ruleset.Ports:
		return 8
	case ruleset.Connections:
		return 2*addressLength(f) + 8
	case ruleset.Choices:
		return 12
	}
	return 0
}

// keyType returns the type of a set's keys, by which nft shows them.
func keyType(f ruleset.Family, kind ruleset.Kind) uint32 {
	const port = typeProtocol<<typeBits | typeService
	switch kind {
	case ruleset.Addresses, ruleset.Ranges:
		return addressType(f)
	case ruleset.Services:
		return addressType(f)<<(2*typeBits) | port
	case ruleset.Ports:
		return port
	case ruleset.Connections:
		return addressType(f)<<(3*typeBits) | addressType(f)<<(2*typeBits) | port
	case ruleset.Choices:
		return typeMark<<(2*typeBits) | typeMark<<typeBits | typeMark
	}
	return 0
}

// appendKey adds a key in the kernel's form.
func appendKey(buf []byte, kind ruleset.Kind, key ruleset.Key) []byte {
	if kind == ruleset.Choices {
		return binary.NativeEndian.AppendUint32(appendID(buf, key.ID), key.Index)
	}
	if kind == ruleset.Connections {
		buf = append(buf, key.Source.AsSlice()...)
	}
	if kind != ruleset.Ports {
		buf = append(buf, key.Addr.AsSlice()...)
	}
	if kind != ruleset.Addresses && kind != ruleset.Ranges {
		buf = append(buf, byte(key.Protocol), 0, 0, 0)
		buf = append(binary.BigEndian.AppendUint16(buf, key.Port), 0, 0)
	}
	return buf
}

// appendID adds the ID of a chain.
func appendID(buf []byte, id uint64) []byte {
	return binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(buf, uint32(id>>32)), uint32(id))
}

// endpointLength returns the length of an endpoint, the value of a map.
func endpointLength(f ruleset.Family) int { return addressLength(f) + 4 }

func endpointType(f ruleset.Family) uint32 { return addressType(f)<<typeBits | typeService }

// appendEndpoint adds an endpoint in the kernel's form.
func appendEndpoint(buf []byte, to netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(append(buf, to.Addr().AsSlice()...), to.Port()), 0, 0)
}

// parseEndpoint is the opposite of appendEndpoint. It reports false for one of another length.
func parseEndpoint(f ruleset.Family, buf []byte) (netip.AddrPort, bool) {
	if len(buf) != endpointLength(f) {
		return netip.AddrPort{}, false
	}
	addr, ok := netip.AddrFromSlice(buf[:addressLength(f)])
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(buf[addressLength(f):])), ok
}

// parseKey is the opposite of appendKey. It reports false for a key of another length.
func parseKey(f ruleset.Family, kind ruleset.Kind, buf []byte) (ruleset.Key, bool) {
	var key ruleset.Key
	if length := keyLength(f, kind); length == 0 || len(buf) != length {
		return key, false
	}
	if kind == ruleset.Choices {
		number := func(at int) uint32 { return binary.NativeEndian.Uint32(buf[at:]) }
		return ruleset.Key{ID: uint64(number(0))<<32 | uint64(number(4)), Index: number(8)}, true
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
	if kind != ruleset.Addresses && kind != ruleset.Ranges {
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
	case ruleset.PodRanges:
		return ruleset.Ranges
	}
	if ruleset.HasEndpoints(set) {
		return ruleset.Choices
	}
	return ruleset.Addresses
}
