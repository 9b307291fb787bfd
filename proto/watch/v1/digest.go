package watchv1

import (
	"encoding/binary"
	"hash/fnv"
)

// EntryDigest returns one object's share of a view's digest (Ask.digest), which is the sum, modulo
// 2^64, of the shares of all objects in the view. Both ends of the fabric use it.
func EntryDigest(namespace, name, uid string, revision int64) uint64 {
	h := fnv.New64a()
	for _, part := range []string{namespace, name, uid} {
		_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		_, _ = h.Write([]byte(part))
	}
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(revision)))
	// FNV's low bits are weak in sums; this spreads them (the end of splitmix64).
	x := h.Sum64()
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
