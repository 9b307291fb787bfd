package wire

import (
	"encoding/binary"
	"errors"
)

// Sizes in bytes. MaxUDP is also what this server accepts over UDP and says so (EDNS0): larger
// packets would be fragmented on common networks (DNS flag day 2020).
const (
	HeaderSize = 12
	MinUDP     = 512
	MaxUDP     = 1232
	MaxTCP     = 65535
	optSize    = 11
)

// Types and classes, as far as this package must know them.
const (
	typeOPT   = 41
	ClassINET = 1
)

// Bits of a header's second word (RFC 1035, 4035).
const (
	bitQR      = 1 << 15
	bitAA      = 1 << 10
	bitTC      = 1 << 9
	bitRD      = 1 << 8
	bitRA      = 1 << 7
	bitAD      = 1 << 5
	bitCD      = 1 << 4
	opcodeMask = 0xf << 11
	bitDO      = 1 << 15
)

// A message may have this many records in addition to its question: the extensions (OPT) and a
// signature; a transfer names its version as authority.
const maxRecords = 2

// The reasons why Parse refuses a message.
var (
	// ErrDrop means that the message deserves no answer: it is none, or itself an answer.
	ErrDrop = errors.New("not a question")
	// ErrFormat means that the question is malformed.
	ErrFormat = errors.New("a malformed question")
	// ErrOpcode means that the message asks for something other than a query.
	ErrOpcode = errors.New("not a query")
	// ErrVersion means that the question uses an unknown version of EDNS.
	ErrVersion = errors.New("an unknown version of EDNS")
)

// Question is a parsed question. It refers to the parsed message.
type Question struct {
	// ID identifies the question to its asker.
	ID uint16
	// Name is what it asks for, in lower case.
	Name Name
	// Type and Class are those of RFC 1035.
	Type, Class uint16
	// EDNS reports whether the asker knows EDNS0, DNSSEC whether it wants signatures, and Size how
	// many bytes of an answer it accepts over UDP.
	EDNS, DNSSEC bool
	Size         int
	flags        uint16
	// section is the question section, in the asker's upper and lower case.
	section []byte
}

// Parse reads the question of a message. With ErrFormat, ErrOpcode and ErrVersion as much of the
// question is set as an answer needs. The question refers to the message.
func (q *Question) Parse(message []byte) error {
	if len(message) < HeaderSize {
		return ErrDrop
	}
	q.ID = binary.BigEndian.Uint16(message)
	q.flags = binary.BigEndian.Uint16(message[2:])
	q.Type, q.Class, q.EDNS, q.DNSSEC, q.Size, q.section = 0, 0, false, false, MinUDP, nil
	switch {
	case q.flags&bitQR != 0:
		return ErrDrop
	case q.flags&opcodeMask != 0:
		return ErrOpcode
	case binary.BigEndian.Uint16(message[4:]) != 1:
		return ErrFormat
	}
	end, ok := q.Name.read(message, HeaderSize)
	if !ok || end+4 > len(message) {
		return ErrFormat
	}
	q.Type = binary.BigEndian.Uint16(message[end:])
	q.Class = binary.BigEndian.Uint16(message[end+2:])
	q.section = message[HeaderSize : end+4]
	return q.parseRecords(message, end+4)
}

// parseRecords reads the records behind the question.
func (q *Question) parseRecords(message []byte, at int) error {
	before := int(binary.BigEndian.Uint16(message[6:])) + int(binary.BigEndian.Uint16(message[8:]))
	additional := int(binary.BigEndian.Uint16(message[10:]))
	if before > maxRecords || additional > maxRecords {
		return q.malformed()
	}
	for i := range before + additional {
		r, ok := readRecord(message, at)
		if !ok {
			return q.malformed()
		}
		at = r.End
		if r.Type != typeOPT {
			continue
		}
		if q.EDNS || i < before || !r.root {
			return q.malformed()
		}
		q.EDNS = true
		q.Size = min(max(int(r.class), MinUDP), MaxUDP)
		q.DNSSEC = r.ttl&bitDO != 0
		if version := byte(r.ttl >> 16); version != 0 {
			return ErrVersion
		}
	}
	return nil
}

// malformed returns ErrFormat, after which an answer must not repeat anything of the question.
func (q *Question) malformed() error {
	q.section, q.EDNS = nil, false
	return ErrFormat
}

// AuthenticData reports whether the asker wants to know that an answer was validated (RFC 6840).
func (q *Question) AuthenticData() bool { return q.DNSSEC || q.flags&bitAD != 0 }

// CheckingDisabled reports whether the asker wants answers that fail validation, too.
func (q *Question) CheckingDisabled() bool { return q.flags&bitCD != 0 }

// Clone returns a question that does not refer to the message.
func (q *Question) Clone() *Question {
	c := *q
	c.section = append([]byte(nil), q.section...)
	return &c
}

// Record is the place of a record in a message.
type Record struct {
	// Type is the record's type.
	Type uint16
	// TTLAt and End are offsets: of the time to live, and behind the record.
	TTLAt, End int
	// at is where the record begins.
	at    int
	class uint16
	ttl   uint32
	root  bool
}

// TTL is the record's time to live in seconds.
func (r Record) TTL() uint32 { return r.ttl }

// readRecord reads the record at an offset, without what it contains.
func readRecord(message []byte, at int) (Record, bool) {
	begin := at
	for {
		if at >= len(message) {
			return Record{}, false
		}
		length := int(message[at])
		at++
		if length >= 0xc0 { // a pointer
			at++
			break
		}
		if length > maxLabel || at-begin > maxName {
			return Record{}, false
		}
		if length == 0 {
			break
		}
		at += length
	}
	if at+10 > len(message) {
		return Record{}, false
	}
	r := Record{
		Type: binary.BigEndian.Uint16(message[at:]), class: binary.BigEndian.Uint16(message[at+2:]),
		ttl: binary.BigEndian.Uint32(message[at+4:]), TTLAt: at + 4, at: begin, root: at == begin+1,
	}
	r.End = at + 10 + int(binary.BigEndian.Uint16(message[at+8:]))
	return r, r.End <= len(message)
}

// Records returns the records of a message with one question, in order. It reports whether the
// message is well-formed as far as the places of its records go.
func Records(message []byte) ([]Record, bool) {
	if len(message) < HeaderSize || binary.BigEndian.Uint16(message[4:]) != 1 {
		return nil, false
	}
	var name Name
	at, ok := name.read(message, HeaderSize)
	if !ok {
		return nil, false
	}
	at += 4
	total := 0
	for section := range 3 {
		total += int(binary.BigEndian.Uint16(message[6+2*section:]))
	}
	var records []Record
	for range total {
		r, ok := readRecord(message, at)
		if !ok {
			return nil, false
		}
		records = append(records, r)
		at = r.End
	}
	return records, true
}
