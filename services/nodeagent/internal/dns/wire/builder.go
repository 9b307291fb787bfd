package wire

import (
	"encoding/binary"
	"net/netip"

	"github.com/miekg/dns"
)

// AskedName is where a message has the name that is asked for.
const AskedName = HeaderSize

// maxPointer is the first offset that no pointer can have.
const maxPointer = 1 << 14

// Sections of a message, after the question.
const (
	answers = iota
	authorities
	additionals
	sections
)

// Builder writes an answer. Records that exceed the limit are left out, and so are all after them;
// the answer then says that it is truncated. Records must come in the order of their sections.
type Builder struct {
	out   []byte
	begin int
	limit int
	// reserved is what the extensions need.
	reserved  int
	flags     uint16
	counts    [sections]uint16
	truncated bool
	edns, do  bool
}

// Begin starts an answer to a question, which it appends to out. It has at most limit bytes.
func Begin(out []byte, q *Question, limit int) *Builder {
	b := &Builder{out: out, begin: len(out), limit: limit, edns: q.EDNS, do: q.DNSSEC}
	b.flags = bitQR | bitRA | q.flags&(opcodeMask|bitRD|bitCD)
	if q.EDNS {
		b.reserved = optSize
	}
	b.out = append(b.out, byte(q.ID>>8), byte(q.ID), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	if q.section != nil {
		b.out[b.begin+5] = 1
		b.out = append(b.out, q.section...)
	}
	return b
}

// room reports whether a record fits whose name and data have that many bytes.
func (b *Builder) room(size int) bool {
	if b.truncated || len(b.out)-b.begin+size+10+b.reserved > b.limit {
		b.truncated = true
		return false
	}
	return true
}

// Answered returns how many answers are written.
func (b *Builder) Answered() int { return int(b.counts[answers]) }

// head writes the name that is at an offset, and what a record has before its data.
func (b *Builder) head(section, owner int, kind uint16, ttl uint32, size int) {
	b.counts[section]++
	b.out = append(b.out, 0xc0|byte(owner>>8), byte(owner), byte(kind>>8), byte(kind), 0, ClassINET,
		byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl), byte(size>>8), byte(size))
}

// Address writes an A or AAAA record as an answer. Its owner is a name at an offset of the message.
func (b *Builder) Address(owner int, ttl uint32, addr netip.Addr) {
	b.address(answers, owner, ttl, addr)
}

func (b *Builder) address(section, owner int, ttl uint32, addr netip.Addr) {
	if addr.Is4() {
		if b.room(2 + 4) {
			bytes := addr.As4()
			b.head(section, owner, dns.TypeA, ttl, 4)
			b.out = append(b.out, bytes[:]...)
		}
		return
	}
	if b.room(2 + 16) {
		bytes := addr.As16()
		b.head(section, owner, dns.TypeAAAA, ttl, 16)
		b.out = append(b.out, bytes[:]...)
	}
}

// Name writes a record that consists of a name, such as a CNAME, as an answer. It returns the
// offset of that name, for records whose owner it is.
func (b *Builder) Name(owner int, kind uint16, ttl uint32, name string) (at int) {
	if !b.room(2 + len(name)) {
		return AskedName
	}
	b.head(answers, owner, kind, ttl, len(name))
	return b.append(name)
}

// append writes a name and returns its offset.
func (b *Builder) append(name string) int {
	at := len(b.out) - b.begin
	b.out = append(b.out, name...)
	return at
}

// Service writes an SRV record as an answer. It returns the offset of the target.
func (b *Builder) Service(owner int, ttl uint32, weight, port uint16, target string) (at int) {
	if !b.room(2 + 6 + len(target)) {
		return AskedName
	}
	b.head(answers, owner, dns.TypeSRV, ttl, 6+len(target))
	b.out = append(b.out, 0, 0, byte(weight>>8), byte(weight), byte(port>>8), byte(port))
	return b.append(target)
}

// Extra writes an A or AAAA record as additional information. Its owner is the name at an offset.
func (b *Builder) Extra(owner int, ttl uint32, addr netip.Addr) {
	if owner < maxPointer {
		b.address(additionals, owner, ttl, addr)
	}
}

// Text writes a record of character strings, such as TXT, as an answer. Each string has at most 255
// bytes.
func (b *Builder) Text(owner int, kind uint16, ttl uint32, texts ...string) {
	size := 0
	for _, text := range texts {
		size += 1 + len(text)
	}
	if !b.room(2 + size) {
		return
	}
	b.head(answers, owner, kind, ttl, size)
	for _, text := range texts {
		b.out = append(append(b.out, byte(len(text))), text...)
	}
}

// SOA is the start of a zone's authority (RFC 1035), as far as it varies.
type SOA struct {
	// TTL is how long the record holds, and an answer that there is no such name or record.
	TTL    uint32
	Serial uint32
}

// The other fields of an SOA record, as CoreDNS has them.
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
)

// Authority writes the SOA record of the zone whose name is at an offset: as the answer if it was
// asked for, or else as the reason of an empty answer.
func (b *Builder) Authority(asked bool, zone int, soa SOA) {
	const server, mailbox = "\x02ns\x03dns", "\x0ahostmaster"
	const size = len(server) + 2 + len(mailbox) + 2 + 20
	if !b.room(2 + size) {
		return
	}
	section := authorities
	if asked {
		section = answers
	}
	pointer := [2]byte{0xc0 | byte(zone>>8), byte(zone)}
	b.head(section, zone, dns.TypeSOA, soa.TTL, size)
	b.out = append(append(b.out, server...), pointer[:]...)
	b.out = append(append(b.out, mailbox...), pointer[:]...)
	for _, field := range [...]uint32{soa.Serial, soaRefresh, soaRetry, soaExpire, soa.TTL} {
		b.out = binary.BigEndian.AppendUint32(b.out, field)
	}
}

// Finish returns out with the whole answer.
func (b *Builder) Finish(rcode int, authoritative bool) []byte {
	b.flags |= uint16(rcode) & 0xf
	if authoritative {
		b.flags |= bitAA
	}
	if b.truncated {
		b.flags |= bitTC
	}
	extra := b.counts[additionals]
	if b.edns {
		extra++
		b.out = appendOPT(b.out, rcode, b.do)
	}
	header := b.out[b.begin:]
	binary.BigEndian.PutUint16(header[2:], b.flags)
	binary.BigEndian.PutUint16(header[6:], b.counts[answers])
	binary.BigEndian.PutUint16(header[8:], b.counts[authorities])
	binary.BigEndian.PutUint16(header[10:], extra)
	return b.out
}

// appendOPT writes this server's extensions.
func appendOPT(out []byte, rcode int, do bool) []byte {
	flags := byte(0)
	if do {
		flags = bitDO >> 8
	}
	return append(out, 0, 0, typeOPT, byte(MaxUDP>>8), byte(MaxUDP&0xff), byte(rcode>>4), 0, flags, 0, 0, 0)
}

// Truncated reports whether a record was left out.
func (b *Builder) Truncated() bool { return b.truncated }
