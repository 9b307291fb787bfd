package wire

import (
	"errors"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// packed returns a message after a change.
func packed(t testing.TB, change func(*dns.Msg)) []byte {
	t.Helper()
	message := new(dns.Msg).SetQuestion("wWw.Example.com.", dns.TypeA)
	message.Id = 7
	if change != nil {
		change(message)
	}
	data, err := message.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sectionText returns the name that is asked for, in the asker's upper and lower case.
func sectionText(q *Question) string {
	text, _, _ := dns.UnpackDomainName(q.section, 0)
	return text
}

func TestParse(t *testing.T) {
	record, _ := dns.NewRR("example.com. 1 IN A 192.0.2.1")
	opt := func(size uint16, do bool) func(*dns.Msg) { return func(m *dns.Msg) { m.SetEdns0(size, do) } }
	for _, tt := range []struct {
		name   string
		change func(*dns.Msg)
		err    error
		size   int
		dnssec bool
	}{
		{"plain", nil, nil, 512, false},
		{"with extensions", opt(1000, false), nil, 1000, false},
		{"with signatures", opt(1232, true), nil, 1232, true},
		{"too large", opt(4096, false), nil, MaxUDP, false},
		{"too small", opt(100, false), nil, 512, false},
		{"with a cookie", func(m *dns.Msg) {
			m.SetEdns0(1232, false)
			m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"}}
		}, nil, 1232, false},
		{"of another version", func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }, ErrVersion, 1232, false},
		{"two extensions", func(m *dns.Msg) { m.SetEdns0(1232, false); m.Extra = append(m.Extra, m.Extra[0]) }, ErrFormat, 1232, false},
		{"extensions as an answer", func(m *dns.Msg) { m.SetEdns0(1232, false); m.Answer, m.Extra = m.Extra, nil }, ErrFormat, 512, false},
		{"with an answer", func(m *dns.Msg) { m.Answer = []dns.RR{record} }, nil, 512, false},
		{"with many records", func(m *dns.Msg) { m.Extra = []dns.RR{record, record, record} }, ErrFormat, 512, false},
		{"an answer", func(m *dns.Msg) { m.Response = true }, ErrDrop, 512, false},
		{"an update", func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, ErrOpcode, 512, false},
		{"no question", func(m *dns.Msg) { m.Question = nil }, ErrFormat, 512, false},
		{"two questions", func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, ErrFormat, 512, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q Question
			err := q.Parse(packed(t, tt.change))
			if !errors.Is(err, tt.err) {
				t.Fatalf("got error %v, want %v", err, tt.err)
			}
			if q.ID != 7 || q.Size != tt.size || q.DNSSEC != tt.dnssec {
				t.Errorf("got %+v", q)
			}
			if err == nil && (q.Name.String() != "www.example.com." || sectionText(&q) != "wWw.Example.com." || q.Type != dns.TypeA || q.Class != ClassINET) {
				t.Errorf("got question %s %d %d", sectionText(&q), q.Type, q.Class)
			}
		})
	}
}

func TestParseMalformed(t *testing.T) {
	whole := packed(t, func(m *dns.Msg) { m.SetEdns0(1232, false) })
	var q Question
	for n := range len(whole) {
		err := q.Parse(whole[:n])
		if n < HeaderSize && !errors.Is(err, ErrDrop) || n >= HeaderSize && !errors.Is(err, ErrFormat) {
			t.Errorf("%d of %d bytes: got %v", n, len(whole), err)
		}
	}
	pointer := append(whole[:HeaderSize:HeaderSize], 0xc0, HeaderSize, 0, 1, 0, 1)
	if err := q.Parse(pointer); !errors.Is(err, ErrFormat) {
		t.Errorf("a name that points to itself: got %v", err)
	}
	if err := q.Parse(whole); err != nil {
		t.Errorf("after malformed questions: %v", err)
	}
}

func TestClone(t *testing.T) {
	message := packed(t, nil)
	var q Question
	if err := q.Parse(message); err != nil {
		t.Fatal(err)
	}
	clone := q.Clone()
	clear(message)
	if sectionText(clone) != "wWw.Example.com." || sectionText(&q) == sectionText(clone) {
		t.Errorf("the clone asks for %s, the question for %s", sectionText(clone), sectionText(&q))
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		change     func(*dns.Msg)
		ad, cd, rd bool
	}{
		{func(m *dns.Msg) { m.RecursionDesired = false }, false, false, false},
		{nil, false, false, true},
		{func(m *dns.Msg) { m.AuthenticatedData = true }, true, false, true},
		{func(m *dns.Msg) { m.SetEdns0(1232, true) }, true, false, true},
		{func(m *dns.Msg) { m.CheckingDisabled = true }, false, true, true},
	} {
		var q Question
		if err := q.Parse(packed(t, tt.change)); err != nil {
			t.Fatal(err)
		}
		answer := unpack(t, Begin(nil, &q, MinUDP).Finish(dns.RcodeSuccess, false))
		if q.AuthenticData() != tt.ad || q.CheckingDisabled() != tt.cd || answer.CheckingDisabled != tt.cd || answer.RecursionDesired != tt.rd {
			t.Errorf("got %v, %v of %+v, answered by %v", q.AuthenticData(), q.CheckingDisabled(), q, answer)
		}
	}
}

// FuzzParse checks that what Parse accepts the DNS library reads in the same way, and that an answer
// to it is a message.
func FuzzParse(f *testing.F) {
	f.Add(packed(f, nil))
	f.Add(packed(f, func(m *dns.Msg) { m.SetEdns0(1232, true) }))
	f.Add(packed(f, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }))
	f.Fuzz(func(t *testing.T, data []byte) {
		var q Question
		err := q.Parse(data)
		if errors.Is(err, ErrDrop) {
			return
		}
		answer := new(dns.Msg)
		built := Begin(nil, &q, MinUDP).Finish(dns.RcodeServerFailure, false)
		if unpacked := answer.Unpack(built); unpacked != nil || answer.Id != q.ID || !answer.Response {
			t.Fatalf("the answer to %q is %q: %v", data, built, unpacked)
		}
		if err != nil {
			return
		}
		asked := new(dns.Msg)
		if err := asked.Unpack(data); err != nil {
			return // The library also reads the data of records.
		}
		if len(asked.Question) != 1 || !strings.EqualFold(asked.Question[0].Name, q.Name.String()) ||
			asked.Question[0].Qtype != q.Type || asked.Question[0].Qclass != q.Class || (asked.IsEdns0() != nil) != q.EDNS {
			t.Errorf("got %s %d %d, want %v", sectionText(&q), q.Type, q.Class, asked)
		}
		if answer.Question[0].Name != asked.Question[0].Name {
			t.Errorf("the answer is about %s instead of %s", answer.Question[0].Name, asked.Question[0].Name)
		}
	})
}
