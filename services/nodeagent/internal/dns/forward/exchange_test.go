package forward

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// hostile is a server that answers each question with packets of its own.
type hostile struct {
	addr netip.AddrPort
	mu   sync.Mutex
	// ports and ids are those that questions came with.
	ports map[int]bool
	ids   map[uint16]bool
}

// newHostile starts a server. Over UDP it sends all packets that udp returns, over TCP what tcp
// returns; it has no TCP without that.
func newHostile(t *testing.T, udp func(asked []byte) [][]byte, tcp func(asked []byte) []byte) *hostile {
	t.Helper()
	var conn *net.UDPConn
	var listener net.Listener
	for range 100 { // The port must be free over both.
		var err error
		if conn, err = net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}); err != nil {
			t.Fatal(err)
		}
		if listener, err = net.Listen("tcp", conn.LocalAddr().String()); err == nil {
			break
		}
		_ = conn.Close()
	}
	h := &hostile{addr: netip.MustParseAddrPort(conn.LocalAddr().String()), ports: map[int]bool{}, ids: map[uint16]bool{}}
	var serving sync.WaitGroup
	t.Cleanup(func() { _ = conn.Close(); serving.Wait() })
	serving.Go(func() {
		packet := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFromUDP(packet)
			if err != nil {
				return
			}
			h.mu.Lock()
			h.ports[from.Port], h.ids[binary.BigEndian.Uint16(packet)] = true, true
			h.mu.Unlock()
			for _, answer := range udp(packet[:n]) {
				_, _ = conn.WriteToUDP(answer, from)
			}
		}
	})
	if tcp == nil {
		_ = listener.Close()
		return h
	}
	t.Cleanup(func() { _ = listener.Close() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			var size [2]byte
			_, _ = io.ReadFull(conn, size[:])
			asked := make([]byte, binary.BigEndian.Uint16(size[:]))
			_, _ = io.ReadFull(conn, asked)
			_, _ = conn.Write(tcp(asked))
			_ = conn.Close()
		}
	})
	return h
}

// answer returns an answer to a packed question, after a change.
func answer(asked []byte, change func(*dns.Msg)) []byte {
	question := new(dns.Msg)
	if err := question.Unpack(asked); err != nil {
		return nil
	}
	made := new(dns.Msg).SetReply(question)
	rr, _ := dns.NewRR(question.Question[0].Name + " 60 IN A 192.0.2.9")
	made.Answer = []dns.RR{rr}
	if change != nil {
		change(made)
	}
	packed, _ := made.Pack()
	return packed
}

func TestExchange(t *testing.T) {
	honest := func(asked []byte) []byte { return answer(asked, nil) }
	only := func(change func(*dns.Msg)) func([]byte) [][]byte {
		return func(asked []byte) [][]byte { return [][]byte{answer(asked, change)} }
	}
	after := func(change func(*dns.Msg)) func([]byte) [][]byte {
		return func(asked []byte) [][]byte {
			forged := answer(asked, func(m *dns.Msg) {
				m.Answer = append(m.Answer, m.Answer[0])
				change(m)
			})
			return [][]byte{forged, honest(asked)}
		}
	}
	overTCP := func(asked []byte) []byte {
		packed := answer(asked, nil)
		return append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)
	}
	truncated := func(m *dns.Msg) { m.Truncated, m.Answer = true, nil }
	for _, tt := range []struct {
		name    string
		udp     func([]byte) [][]byte
		tcp     func([]byte) []byte
		answers int
		fails   bool
	}{
		{"an answer", only(nil), nil, 1, false},
		{"after one with another ID", after(func(m *dns.Msg) { m.Id++ }), nil, 1, false},
		{"after one about another name", after(func(m *dns.Msg) { m.Question[0].Name = "x.example.com." }), nil, 1, false},
		{"after one about another type", after(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAAAA }), nil, 1, false},
		{"after one of another class", after(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), nil, 1, false},
		{"after one without a question", after(func(m *dns.Msg) { m.Question = nil }), nil, 1, false},
		{"after a question", after(func(m *dns.Msg) { m.Response = false }), nil, 1, false},
		{"after garbage", func(asked []byte) [][]byte { return [][]byte{{1, 2, 3}, nil, honest(asked)} }, nil, 1, false},
		{"in upper case", only(func(m *dns.Msg) { m.Question[0].Name = "WWW.EXAMPLE.COM." }), nil, 1, false},
		{"the question and nothing else", only(func(m *dns.Msg) { m.Response = false }), nil, 0, true},
		{"nothing", func([]byte) [][]byte { return nil }, nil, 0, true},
		{"truncated", only(truncated), overTCP, 1, false},
		{"truncated without TCP", only(truncated), nil, 0, false},
		{"truncated with garbage over TCP", only(truncated), func([]byte) []byte { return []byte{0, 2, 1, 2} }, 0, false},
		{"truncated and cut over TCP", only(truncated), func([]byte) []byte { return []byte{0, 200, 1, 2} }, 0, false},
		{"a flood of forged ones", func(asked []byte) (packets [][]byte) {
			for range maxForged {
				packets = append(packets, answer(asked, func(m *dns.Msg) { m.Id++ }))
			}
			return packets
		}, overTCP, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHostile(t, tt.udp, tt.tcp)
			patience := 10 * time.Second
			if tt.fails {
				patience = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			asked := about(t, "www.example.com", dns.TypeA)
			got, err := exchange(ctx, h.addr, &query{name: asked.Name, kind: asked.Type})
			if (err != nil) != tt.fails || err == nil && len(got.Answer) != tt.answers {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

// TestUnguessable checks that questions come from different ports and with different IDs.
func TestUnguessable(t *testing.T) {
	h := newHostile(t, func(asked []byte) [][]byte { return [][]byte{answer(asked, nil)} }, nil)
	asked := about(t, "www.example.com", dns.TypeA)
	for range 32 {
		if _, err := exchange(t.Context(), h.addr, &query{name: asked.Name, kind: asked.Type}); err != nil {
			t.Fatal(err)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.ports) < 16 || len(h.ids) < 24 {
		t.Errorf("32 questions came from %d ports with %d IDs", len(h.ports), len(h.ids))
	}
}

func TestRefusedConnection(t *testing.T) {
	h := newHostile(t, func([]byte) [][]byte { return nil }, nil)
	asked := about(t, "www.example.com", dns.TypeA)
	if _, err := overTCP(t.Context(), h.addr, &query{name: asked.Name, kind: asked.Type}); err == nil {
		t.Error("asked a server that does not listen")
	}
}

func TestPack(t *testing.T) {
	asked := about(t, "Www.example.com", dns.TypeMX)
	for _, q := range []query{{}, {dnssec: true}, {checking: true}, {plain: true}} {
		q.name, q.kind = asked.Name, asked.Type
		message := new(dns.Msg)
		if err := message.Unpack(q.pack(7)); err != nil {
			t.Fatal(err)
		}
		opt := message.IsEdns0()
		if message.Id != 7 || !message.RecursionDesired || message.CheckingDisabled != q.checking ||
			message.Question[0] != (dns.Question{Name: "www.example.com.", Qtype: dns.TypeMX, Qclass: dns.ClassINET}) {
			t.Errorf("%+v: got %v", q, message)
		}
		if (opt == nil) != q.plain || opt != nil && (opt.Do() != q.dnssec || opt.UDPSize() != wire.MaxUDP) {
			t.Errorf("%+v: got extensions %v", q, opt)
		}
	}
}

// FuzzUpstreamAnswer checks that whatever a server answers, what is served in turn is a message of
// allowed size, and is not kept for too long.
func FuzzUpstreamAnswer(f *testing.F) {
	asked := about(f, "www.example.com", dns.TypeA)
	q := query{name: asked.Name, kind: asked.Type}
	packed := q.pack(7)
	soa, _ := dns.NewRR("example.com. 60 IN SOA a. b. 1 2 3 4 60")
	opt := new(dns.Msg).SetEdns0(4096, true).Extra
	f.Add(answer(packed, nil))
	f.Add(answer(packed, func(m *dns.Msg) { m.Answer, m.Ns, m.Rcode = nil, []dns.RR{soa}, dns.RcodeNameError }))
	f.Add(answer(packed, func(m *dns.Msg) { m.Truncated, m.Extra = true, opt }))
	f.Add(answer(packed, func(m *dns.Msg) { m.Answer[0].Header().Ttl = 1<<32 - 1 }))
	client := new(dns.Msg).SetQuestion("wWw.example.com.", dns.TypeA)
	client.SetEdns0(1232, true)
	message, err := client.Pack()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := q.answers(data, 7)
		if err != nil {
			return
		}
		stored, err := wire.Store(got, maxKept)
		if err != nil {
			return
		}
		if e := newEntry("key", got, stored); e.lifetime < 0 || e.lifetime > maxKept {
			t.Errorf("kept for %v", e.lifetime)
		}
		var question wire.Question
		if err := question.Parse(message); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{wire.MinUDP, wire.MaxUDP, wire.MaxTCP} {
			data := Answer{stored: stored, age: time.Second}.AppendTo(nil, &question, limit)
			served := new(dns.Msg)
			if err := served.Unpack(data); err != nil || len(data) > limit && len(served.Answer) > 0 {
				t.Errorf("served %q: %v", data, err)
			}
			if served.Question[0].Name != "wWw.example.com." || !served.Response || served.IsEdns0() == nil {
				t.Errorf("served %v", served)
			}
		}
		b := wire.Begin(nil, &question, wire.MaxUDP)
		Answer{stored: stored, stale: staleTTL}.Write(b, true)
		composed := new(dns.Msg)
		if data := b.Finish(dns.RcodeSuccess, false); composed.Unpack(data) != nil || len(data) > wire.MaxUDP {
			t.Errorf("composed %q", data)
		}
	})
}

// TestCacheBounds checks that the cache drops what was not used for longest.
func TestCacheBounds(t *testing.T) {
	dropped := 0
	c := newCache(func(bool) { dropped++ })
	asked := about(t, "www.example.com", dns.TypeA)
	rr, _ := dns.NewRR(fmt.Sprintf("www.example.com. 60 IN TXT %0250d", 0))
	put := func(i int, records int) {
		made := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
		for range records {
			made.Answer = append(made.Answer, rr)
		}
		stored, err := wire.Store(made, maxKept)
		if err != nil {
			t.Fatal(err)
		}
		c.put(newEntry(fmt.Sprint(i), made, stored))
	}
	const total = 2 * maxEntries
	for i := range total {
		put(i, 0)
		if c.get([]byte("0")) == nil {
			t.Fatalf("the entry in use is gone after %d", i)
		}
	}
	positive, negative := c.counts()
	if positive != 0 || negative > maxEntries || negative < maxEntries/2 || negative+dropped != total {
		t.Errorf("keeps %d entries of %d, and dropped %d", negative, total, dropped)
	}
	for i := range 600 {
		put(i, 200)
	}
	bytes := 0
	for i := range c.parts {
		bytes += c.parts[i].bytes
	}
	if bytes > maxBytes || bytes < maxBytes/2 {
		t.Errorf("keeps %d bytes", bytes)
	}
	if key := appendKey(nil, &asked.Name, 1, true, true); len(key) > maxKey {
		t.Errorf("a key has %d bytes", len(key))
	}
}
