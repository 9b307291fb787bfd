package allocate

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
)

// maxBits bounds the part of a range that is allocated automatically: 2 to this power.
const maxBits = 62

// Range is a range of addresses. The addresses between the network's own address and, in IPv4, its
// broadcast address can be allocated.
type Range struct {
	prefix netip.Prefix
	hosts  uint64 // how many can be allocated, from the one after the network's own
}

// NewRange returns the range of a prefix; it may be too small to allocate anything.
func NewRange(prefix netip.Prefix) Range {
	prefix = prefix.Masked()
	all := uint64(1) << min(prefix.Addr().BitLen()-prefix.Bits(), maxBits)
	reserved := uint64(1)
	if prefix.Addr().Is4() {
		reserved = 2
	}
	return Range{prefix: prefix, hosts: all - min(all, reserved)}
}

// Check returns an error if a cluster cannot be started with the range.
func (r Range) Check() error {
	bits := r.prefix.Addr().BitLen() - r.prefix.Bits()
	switch {
	case !r.prefix.IsValid() || bits < 2:
		return fmt.Errorf("the service range %s is too small: it needs four addresses", r.prefix)
	case bits > 64:
		return fmt.Errorf("the service range %s is too large: the prefix must have 64 bits or more", r.prefix)
	}
	return nil
}

// First returns the first address that can be allocated.
func (r Range) First() netip.Addr { return r.at(0) }

// Nth returns the nth address that can be allocated, from 1, and whether the range has as many.
func (r Range) Nth(n uint64) (netip.Addr, bool) {
	if n == 0 || n > r.hosts {
		return netip.Addr{}, false
	}
	return r.at(n - 1), true
}

// at returns the address at an offset, from 0.
func (r Range) at(offset uint64) netip.Addr {
	if r.prefix.Addr().Is4() {
		b := r.prefix.Addr().As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(offset)+1)
		return netip.AddrFrom4(b)
	}
	b := r.prefix.Addr().As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+offset+1)
	return netip.AddrFrom16(b)
}

// allocatable reports whether an address of the range can be allocated.
func (r Range) allocatable(addr netip.Addr) bool {
	if !r.prefix.Contains(addr) || addr == r.prefix.Addr() {
		return false
	}
	last := r.at(r.hosts) // the broadcast address, if there is one
	return !addr.Is4() || r.hosts > 0 && addr != last
}

// band is a part of a range, starting at an offset.
type band struct{ first, size uint64 }

// bands returns the parts of a range in the order of use: like Kubernetes, the upper part first, so
// that users who choose addresses from the lower part themselves rarely find them taken.
func (r Range) bands() []band {
	lower := uint64(0)
	if r.hosts > 16 {
		lower = min(max(16, r.hosts/16), 256)
	}
	return []band{{lower, r.hosts - lower}, {0, lower}}
}

// start returns a random offset in a band.
func (b band) start() uint64 { return rand.Uint64N(b.size) }

// at returns the offset in the range of the nth address of a band, counted from start.
func (b band) at(start, n uint64) uint64 { return b.first + (start+n)%b.size }
