package nodeipam

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
)

// errFull is Kubernetes' text for a cluster range that has nothing left.
var errFull = errors.New("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")

// pool gives the ranges of nodes out of a cluster's range. It is not safe for concurrent use.
type pool struct {
	cluster netip.Prefix
	// bits is the prefix length of a node's range.
	bits int
	// size is how many ranges there are, used how many of them are taken, and next where the search for
	// a free one begins.
	size, used, next int
	taken            []uint64
}

func newPool(s spec) *pool {
	size := 1 << (s.bits - s.cluster.Bits())
	return &pool{cluster: s.cluster, bits: s.bits, size: size, taken: make([]uint64, (size+63)/64)}
}

func (p *pool) has(i int) bool { return p.taken[i/64]&(1<<(i%64)) != 0 }

// set marks a range as taken or free.
func (p *pool) set(i int, taken bool) {
	if p.has(i) == taken {
		return
	}
	p.taken[i/64] ^= 1 << (i % 64)
	if taken {
		p.used++
	} else {
		p.used--
	}
}

// take takes the next free range, and returns how many taken ones it passed over.
func (p *pool) take() (prefix netip.Prefix, tries int, err error) {
	if p.used == p.size {
		return netip.Prefix{}, 0, errFull
	}
	i := p.next
	for p.has(i) {
		if i%64 == 0 && p.taken[i/64] == ^uint64(0) && i+64 <= p.size {
			i, tries = (i+64)%p.size, tries+64
			continue
		}
		i, tries = (i+1)%p.size, tries+1
	}
	p.set(i, true)
	p.next = (i + 1) % p.size
	return p.at(i), tries, nil
}

// occupy marks all ranges that overlap with a range as taken, and free marks them as free.
func (p *pool) occupy(prefix netip.Prefix) error { return p.mark(prefix, true) }

func (p *pool) free(prefix netip.Prefix) error { return p.mark(prefix, false) }

func (p *pool) mark(prefix netip.Prefix, taken bool) error {
	if !p.cluster.Overlaps(prefix) {
		return fmt.Errorf("cidr %s is out the range of cluster cidr %s", prefix, p.cluster)
	}
	first, n := 0, p.size
	if prefix.Bits() > p.cluster.Bits() {
		first, n = p.index(prefix.Addr()), 1<<max(0, p.bits-prefix.Bits())
	}
	for i := first; i < first+n; i++ {
		p.set(i, taken)
	}
	return nil
}

// at returns a range by its number, which is the bits between the cluster's prefix and a node's.
func (p *pool) at(number int) netip.Prefix {
	address := p.cluster.Addr().AsSlice()
	for bit := p.bits - 1; bit >= p.cluster.Bits(); bit-- {
		if number&1 != 0 {
			address[bit/8] |= bits.Reverse8(1 << (bit % 8))
		}
		number >>= 1
	}
	addr, _ := netip.AddrFromSlice(address)
	return netip.PrefixFrom(addr, p.bits)
}

// index returns the number of the range that has an address of the cluster.
func (p *pool) index(addr netip.Addr) int {
	address, number := addr.AsSlice(), 0
	for bit := p.cluster.Bits(); bit < p.bits; bit++ {
		number <<= 1
		if address[bit/8]&bits.Reverse8(1<<(bit%8)) != 0 {
			number |= 1
		}
	}
	return number
}
