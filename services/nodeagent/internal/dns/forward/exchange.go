package forward

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// maxPacket is how many bytes of a packet are read: more than servers may send.
const maxPacket = 4096

// maxForged is how many packets that are no answer to the question are read while waiting for one.
const maxForged = 64

// query is a question to a server, without its ID.
type query struct {
	name     wire.Name
	kind     uint16
	dnssec   bool
	checking bool // "checking disabled"
	plain    bool // without EDNS0
}

// pack returns the message that asks the question.
func (q *query) pack(id uint16) []byte {
	const recursion, checkingDisabled = 1, 1 << 4
	out := make([]byte, 0, wire.HeaderSize+len(q.name.Bytes())+4+11)
	flags := byte(0)
	if q.checking {
		flags = checkingDisabled
	}
	out = append(out, byte(id>>8), byte(id), recursion, flags, 0, 1, 0, 0, 0, 0, 0, 1)
	out = append(out, q.name.Bytes()...)
	out = append(out, byte(q.kind>>8), byte(q.kind), 0, wire.ClassINET)
	if q.plain {
		out[11] = 0
		return out
	}
	signatures := byte(0)
	if q.dnssec {
		signatures = 1 << 7
	}
	return append(out, 0, 0, byte(dns.TypeOPT), byte(wire.MaxUDP>>8), byte(wire.MaxUDP&0xff), 0, 0, signatures, 0, 0, 0)
}

// answers returns the message if it answers the question with that ID.
func (q *query) answers(packet []byte, id uint16) (*dns.Msg, error) {
	message := new(dns.Msg)
	if err := message.Unpack(packet); err != nil {
		return nil, fmt.Errorf("reading an answer: %w", err)
	}
	if message.Id != id || !message.Response || message.Opcode != dns.OpcodeQuery || len(message.Question) != 1 {
		return nil, errForeign
	}
	asked := message.Question[0]
	name, err := wire.ParseName(asked.Name)
	if err != nil || !name.Equal(&q.name) || asked.Qtype != q.kind || asked.Qclass != dns.ClassINET {
		return nil, errForeign
	}
	return message, nil
}

var (
	errForeign = errors.New("not an answer to the question")
	errForged  = errors.New("too many packets that are no answer to the question")
)

// exchange asks a server over UDP, and over TCP if the answer does not fit or cannot be trusted.
func exchange(ctx context.Context, server netip.AddrPort, q *query) (*dns.Msg, error) {
	answer, err := overUDP(ctx, server, q)
	switch {
	case errors.Is(err, errForged):
		return overTCP(ctx, server, q)
	case err == nil && answer.Truncated:
		if whole, err := overTCP(ctx, server, q); err == nil {
			return whole, nil
		}
		// The asker learns that the answer is not whole.
	}
	return answer, err
}

func overUDP(ctx context.Context, server netip.AddrPort, q *query) (*dns.Msg, error) {
	conn, id, err := dial(ctx, "udp", server)
	if err != nil {
		return nil, err
	}
	defer end(ctx, conn)()
	if _, err := conn.Write(q.pack(id)); err != nil {
		return nil, err
	}
	packet := make([]byte, maxPacket)
	for range maxForged {
		n, err := conn.Read(packet)
		if err != nil {
			return nil, err
		}
		if answer, err := q.answers(packet[:n], id); err == nil {
			return answer, nil
		}
	}
	return nil, errForged
}

func overTCP(ctx context.Context, server netip.AddrPort, q *query) (*dns.Msg, error) {
	conn, id, err := dial(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	defer end(ctx, conn)()
	asked := q.pack(id)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(asked))), asked...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	packet := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, packet); err != nil {
		return nil, err
	}
	return q.answers(packet, id)
}

// dial connects to a server from a port that the kernel chooses, and returns an ID for a question.
func dial(ctx context.Context, network string, server netip.AddrPort) (net.Conn, uint16, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, server.String())
	if err != nil {
		return nil, 0, err
	}
	var id [2]byte
	_, _ = rand.Read(id[:]) // never fails
	return conn, binary.BigEndian.Uint16(id[:]), nil
}

// end makes the use of a connection end with ctx. The caller must call what it returns.
func end(ctx context.Context, conn net.Conn) (done func()) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	return func() { stop(); _ = conn.Close() }
}
