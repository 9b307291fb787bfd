package wire

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Stored is an answer of another server, as it is kept: without extensions, ready to be copied.
type Stored struct {
	message []byte
	records []place
	rcode   int
	// ad and tc are bits that the other server set.
	ad, tc bool
	// raws are the records without compression, once they were needed.
	raws atomic.Pointer[[]raw]
}

// place is where a record has its time to live and its end.
type place struct{ ttl, end uint16 }

// errUnsized is the fault of an answer that is too large for a message.
var errUnsized = errors.New("the answer is too large or has malformed records")

// Store keeps an answer. No record holds longer than maxTTL.
func Store(answer *dns.Msg, maxTTL time.Duration) (*Stored, error) {
	kept := *answer
	kept.Id, kept.Compress = 0, true
	kept.MsgHdr = dns.MsgHdr{Rcode: answer.Rcode & 0xf}
	kept.Extra = nil
	for _, rr := range answer.Extra {
		if kind := rr.Header().Rrtype; kind != dns.TypeOPT && kind != dns.TypeTSIG && kind != dns.TypeSIG {
			kept.Extra = append(kept.Extra, rr)
		}
	}
	message, err := kept.Pack()
	if err != nil {
		return nil, err
	}
	records, ok := Records(message)
	// A record without data, which the library reads as one of empty fields, is packed into what nobody can read.
	if !ok || len(message) > MaxTCP || new(dns.Msg).Unpack(message) != nil {
		return nil, errUnsized
	}
	s := &Stored{message: message, rcode: answer.Rcode, ad: answer.AuthenticatedData, tc: answer.Truncated}
	longest := uint32(maxTTL / time.Second)
	for _, r := range records {
		// A negative time is none (RFC 2181, 8).
		if r.ttl > 1<<31-1 {
			r.ttl = 0
		}
		binary.BigEndian.PutUint32(message[r.TTLAt:], min(r.ttl, longest))
		s.records = append(s.records, place{ttl: uint16(r.TTLAt), end: uint16(r.End)})
	}
	return s, nil
}

// Rcode is the answer's code.
func (s *Stored) Rcode() int { return s.rcode }

// Size is how many bytes it takes at most to keep the answer.
func (s *Stored) Size() int {
	const perRecord = 4 + 40 // a place and a raw
	return len(s.message) + s.maxExpanded() + perRecord*len(s.records)
}

// count returns the number of records of a section.
func (s *Stored) count(section int) int { return int(binary.BigEndian.Uint16(s.message[6+2*section:])) }

// Answers is how many records the answer has, without authorities and additional ones.
func (s *Stored) Answers() int { return s.count(answers) }

// AppendTo appends the answer to a question, in its asker's upper and lower case, with at most limit
// bytes. The times to live are reduced by age. If stale is not 0, all are that many seconds instead.
func (s *Stored) AppendTo(out []byte, q *Question, limit int, age time.Duration, stale uint32) []byte {
	begin := len(out)
	reserved := 0
	if q.EDNS {
		reserved = optSize
	}
	fit, size := len(s.records), len(s.message)
	for fit > 0 && size+reserved > limit {
		fit--
		size = HeaderSize + len(q.section)
		if fit > 0 {
			size = int(s.records[fit-1].end)
		}
	}
	out = append(out, s.message[:size]...)
	message := out[begin:]
	copy(message[HeaderSize:], q.section)
	aged := uint32(age / time.Second)
	for _, p := range s.records[:fit] {
		ttl := binary.BigEndian.Uint32(message[p.ttl:])
		ttl -= min(ttl, aged)
		if stale != 0 {
			ttl = stale
		}
		binary.BigEndian.PutUint32(message[p.ttl:], ttl)
	}
	flags := bitQR | bitRA | q.flags&(bitRD|bitCD) | uint16(s.rcode)&0xf
	if s.ad && q.AuthenticData() {
		flags |= bitAD
	}
	if s.tc || fit < len(s.records) {
		flags |= bitTC
	}
	binary.BigEndian.PutUint16(message, q.ID)
	binary.BigEndian.PutUint16(message[2:], flags)
	for section := range sections {
		n := min(s.count(section), fit)
		binary.BigEndian.PutUint16(message[6+2*section:], uint16(n))
		fit -= n
	}
	if q.EDNS {
		out = appendOPT(out, s.rcode, q.DNSSEC)
		binary.BigEndian.PutUint16(out[begin+10:], binary.BigEndian.Uint16(out[begin+10:])+1)
	}
	return out
}

// raw is a record that refers to no other part of its message.
type raw struct {
	section int
	bytes   []byte
	// ttlAt is where the time to live is.
	ttlAt int
}

// expanded returns the records without compression. It keeps them, since searches ask for them again.
func (s *Stored) expanded() []raw {
	if known := s.raws.Load(); known != nil {
		return *known
	}
	message := new(dns.Msg)
	if err := message.Unpack(s.message); err != nil {
		return nil
	}
	packed, err := message.Pack()
	if err != nil {
		return nil
	}
	records, _ := Records(packed)
	raws := make([]raw, 0, len(records))
	for i, r := range records {
		section := answers
		for before := s.count(answers); i >= before && section < additionals; before += s.count(section) {
			section++
		}
		raws = append(raws, raw{section: section, bytes: packed[r.at:r.End], ttlAt: r.TTLAt - r.at})
	}
	if len(packed) <= s.maxExpanded() {
		s.raws.Store(&raws)
	}
	return raws
}

// maxExpanded is how many bytes without compression are kept: few long names can stand in many records.
func (s *Stored) maxExpanded() int { return MinUDP + 2*len(s.message) }

// ttl returns the record's time to live, in seconds.
func (r raw) ttl() uint32 { return binary.BigEndian.Uint32(r.bytes[r.ttlAt:]) }

// TTL returns the shortest time to live of the answers, in seconds, but at most longest. Age and stale
// are as for AppendTo.
func (s *Stored) TTL(longest uint32, age time.Duration, stale uint32) uint32 {
	if stale != 0 {
		return min(stale, longest)
	}
	for _, r := range s.expanded() {
		if r.section == answers {
			longest = min(longest, r.ttl()-min(r.ttl(), uint32(age/time.Second)))
		}
	}
	return longest
}

// Write writes the records to the answer to another question, with times to live as AppendTo has them;
// only the answers if others are not wanted.
func (s *Stored) Write(b *Builder, others bool, age time.Duration, stale uint32) {
	for _, r := range s.expanded() {
		if r.section != answers && !others || !b.room(len(r.bytes)-10) {
			continue
		}
		ttl := r.ttl() - min(r.ttl(), uint32(age/time.Second))
		if stale != 0 {
			ttl = stale
		}
		at := len(b.out) + r.ttlAt
		b.counts[r.section]++
		b.out = append(b.out, r.bytes...)
		binary.BigEndian.PutUint32(b.out[at:], ttl)
	}
}
