package wire

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/miekg/dns"
)

// Stored is an answer of another server, as it is kept: without extensions, ready to be copied.
// Nothing changes it.
type Stored struct {
	message []byte
	records []place
	rcode   int
	// ad and tc are bits that the other server set.
	ad, tc bool
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
	if !ok || len(message) > MaxTCP {
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

// Size is how many bytes it takes to keep the answer.
func (s *Stored) Size() int { return len(s.message) + 4*len(s.records) }

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

// Message returns a copy of the answer as a message, with times to live as AppendTo has them.
func (s *Stored) Message(age time.Duration, stale uint32) (*dns.Msg, error) {
	message := new(dns.Msg)
	if err := message.Unpack(s.message); err != nil {
		return nil, err
	}
	for _, records := range [][]dns.RR{message.Answer, message.Ns, message.Extra} {
		for _, rr := range records {
			header := rr.Header()
			header.Ttl -= min(header.Ttl, uint32(age/time.Second))
			if stale != 0 {
				header.Ttl = stale
			}
		}
	}
	message.Truncated, message.AuthenticatedData = s.tc, s.ad
	return message, nil
}
