package nft

import (
	"encoding/binary"
	"iter"
)

// message writes netlink messages, one after the other. Headers have the machine's byte order,
// nftables' values network order.
type message struct {
	buf   []byte
	start int
	seq   uint32
}

// begin starts a message of a family. resource is set only in messages that begin or end a batch.
func (m *message) begin(kind, flags uint16, family uint8, resource uint16) {
	m.start = len(m.buf)
	m.buf = binary.NativeEndian.AppendUint32(m.buf, 0)
	m.buf = binary.NativeEndian.AppendUint16(m.buf, kind)
	m.buf = binary.NativeEndian.AppendUint16(m.buf, flags|flagRequest)
	m.seq++
	m.buf = binary.NativeEndian.AppendUint32(m.buf, m.seq)
	m.buf = binary.NativeEndian.AppendUint32(m.buf, 0)
	m.buf = append(m.buf, family, 0)
	m.buf = binary.BigEndian.AppendUint16(m.buf, resource)
}

// end completes the message.
func (m *message) end() {
	binary.NativeEndian.PutUint32(m.buf[m.start:], uint32(len(m.buf)-m.start))
}

// acknowledged asks for an acknowledgement of the last message.
func (m *message) acknowledged() {
	flags := binary.NativeEndian.Uint16(m.buf[m.start+6:])
	binary.NativeEndian.PutUint16(m.buf[m.start+6:], flags|flagAck)
}

func (m *message) bytes(kind uint16, value ...byte) {
	m.buf = binary.NativeEndian.AppendUint16(m.buf, uint16(4+len(value)))
	m.buf = binary.NativeEndian.AppendUint16(m.buf, kind)
	m.buf = append(m.buf, value...)
	m.pad()
}

func (m *message) pad() {
	for len(m.buf)%4 != 0 {
		m.buf = append(m.buf, 0)
	}
}

func (m *message) u32(kind uint16, value uint32) {
	m.bytes(kind, byte(value>>24), byte(value>>16), byte(value>>8), byte(value))
}

func (m *message) u64(kind uint16, value uint64) {
	m.bytes(kind, binary.BigEndian.AppendUint64(nil, value)...)
}

// text writes a string, with the NUL that ends it.
func (m *message) text(kind uint16, value string) {
	m.buf = binary.NativeEndian.AppendUint16(m.buf, uint16(5+len(value)))
	m.buf = binary.NativeEndian.AppendUint16(m.buf, kind)
	m.buf = append(append(m.buf, value...), 0)
	m.pad()
}

// nest writes an attribute that holds those that body writes. It must stay below 64 KiB.
func (m *message) nest(kind uint16, body func()) {
	start := len(m.buf)
	m.buf = binary.NativeEndian.AppendUint16(m.buf, 0)
	m.buf = binary.NativeEndian.AppendUint16(m.buf, kind|nestedFlag)
	body()
	binary.NativeEndian.PutUint16(m.buf[start:], uint16(len(m.buf)-start))
}

// received is a message from the kernel. payload is what follows the netlink header.
type received struct {
	kind, flags uint16
	seq         uint32
	payload     []byte
}

// split returns the messages of a datagram. It ends at the first that is cut off.
func split(datagram []byte) iter.Seq[received] {
	return func(yield func(received) bool) {
		for len(datagram) >= headerLength {
			length := int(binary.NativeEndian.Uint32(datagram))
			if length < headerLength || length > len(datagram) {
				return
			}
			r := received{
				kind:    binary.NativeEndian.Uint16(datagram[4:]),
				flags:   binary.NativeEndian.Uint16(datagram[6:]),
				seq:     binary.NativeEndian.Uint32(datagram[8:]),
				payload: datagram[headerLength:length],
			}
			if !yield(r) {
				return
			}
			datagram = datagram[min((length+3)&^3, len(datagram)):]
		}
	}
}

// attributes returns the attributes of a message of nftables, after its own header of 4 bytes.
func (r received) attributes() iter.Seq2[uint16, []byte] {
	if len(r.payload) < 4 {
		return attributes(nil)
	}
	return attributes(r.payload[4:])
}

// attributes returns the attributes in a buffer. It ends at the first that is cut off.
func attributes(buf []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(buf) >= 4 {
			length := int(binary.NativeEndian.Uint16(buf))
			if length < 4 || length > len(buf) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(buf[2:])&attributeMask, buf[4:length]) {
				return
			}
			buf = buf[min((length+3)&^3, len(buf)):]
		}
	}
}

// attribute returns the first attribute of a kind, or nil.
func attribute(buf []byte, kind uint16) []byte {
	for k, value := range attributes(buf) {
		if k == kind {
			return value
		}
	}
	return nil
}

// number returns an attribute's number of up to 8 bytes.
func number(value []byte) uint64 {
	var n uint64
	for _, b := range value[:min(len(value), 8)] {
		n = n<<8 | uint64(b)
	}
	return n
}

// text returns an attribute's string without the NUL that ends it.
func text(value []byte) string {
	for i, b := range value {
		if b == 0 {
			return string(value[:i])
		}
	}
	return string(value)
}
