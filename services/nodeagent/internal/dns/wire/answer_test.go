package wire

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func asked(t testing.TB, change func(*dns.Msg)) *Question {
	t.Helper()
	var q Question
	if err := q.Parse(packed(t, change)); err != nil {
		t.Fatal(err)
	}
	return &q
}

func unpack(t testing.TB, data []byte) *dns.Msg {
	t.Helper()
	message := new(dns.Msg)
	if err := message.Unpack(data); err != nil {
		t.Fatalf("unpacking %q: %v", data, err)
	}
	return message
}

func TestBuilder(t *testing.T) {
	q := asked(t, func(m *dns.Msg) { m.SetEdns0(1232, true) })
	v4, v6 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")
	target := mustName(t, "target.example.org")
	b := Begin([]byte("before"), q, MaxUDP)
	at := b.Name(AskedName, dns.TypeCNAME, 1, target.Wire())
	b.Address(at, 2, v4)
	b.Address(at, 2, v6)
	service := b.Service(AskedName, 3, 50, 8080, target.Wire())
	b.Text(AskedName, dns.TypeTXT, 4, "one", "two")
	b.Authority(false, AskedName+4, SOA{TTL: 5, Serial: 6})
	b.Extra(service, 7, v4)
	if b.Answered() != 5 || b.Truncated() {
		t.Errorf("wrote %d answers, truncated: %v", b.Answered(), b.Truncated())
	}
	data := b.Finish(dns.RcodeSuccess, true)
	if string(data[:6]) != "before" {
		t.Errorf("wrote over what was there: %q", data[:6])
	}
	got := unpack(t, data[6:])
	want := []string{
		"wWw.Example.com.\t1\tIN\tCNAME\ttarget.example.org.",
		"target.example.org.\t2\tIN\tA\t192.0.2.1",
		"target.example.org.\t2\tIN\tAAAA\t2001:db8::1",
		"wWw.Example.com.\t3\tIN\tSRV\t0 50 8080 target.example.org.",
		"wWw.Example.com.\t4\tIN\tTXT\t\"one\" \"two\"",
		"Example.com.\t5\tIN\tSOA\tns.dns.Example.com. hostmaster.Example.com. 6 7200 1800 86400 5",
		"target.example.org.\t7\tIN\tA\t192.0.2.1",
	}
	var lines []string
	for _, records := range [][]dns.RR{got.Answer, got.Ns, got.Extra[:1]} {
		for _, rr := range records {
			lines = append(lines, rr.String())
		}
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(lines, "\n"))
	}
	if !got.Response || !got.Authoritative || !got.RecursionAvailable || !got.RecursionDesired || got.Id != 7 || len(got.Answer) != 5 {
		t.Errorf("got %v", got)
	}
	if opt := got.IsEdns0(); opt == nil || opt.UDPSize() != MaxUDP || !opt.Do() {
		t.Errorf("got extensions %v", opt)
	}
}

func TestBuilderTruncates(t *testing.T) {
	for _, change := range []func(*dns.Msg){nil, func(m *dns.Msg) { m.SetEdns0(600, false) }} {
		q := asked(t, change)
		for records := range 60 {
			b := Begin(nil, q, q.Size)
			for range records {
				b.Address(AskedName, 1, netip.MustParseAddr("192.0.2.1"))
			}
			data := b.Finish(dns.RcodeSuccess, true)
			got := unpack(t, data)
			overhead := HeaderSize + 21
			if q.EDNS {
				overhead += optSize
			}
			want := min(records, (q.Size-overhead)/16)
			if len(got.Answer) != want || got.Truncated != (want < records) || len(data) > q.Size {
				t.Errorf("%d records: got %d, truncated: %v, in %d bytes; want %d", records, len(got.Answer), got.Truncated, len(data), want)
			}
		}
	}
}

func TestExtendedCode(t *testing.T) {
	got := unpack(t, Begin(nil, asked(t, func(m *dns.Msg) { m.SetEdns0(1232, false) }), MaxUDP).Finish(dns.RcodeBadVers, false))
	if got.Rcode != dns.RcodeBadVers {
		t.Errorf("got code %d", got.Rcode)
	}
}

// reply returns an answer with records.
func reply(t testing.TB, code int, records ...string) *dns.Msg {
	t.Helper()
	answer := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
	answer.Response, answer.Rcode = true, code
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			t.Fatal(err)
		}
		answer.Answer = append(answer.Answer, rr)
	}
	return answer
}

func TestStored(t *testing.T) {
	answer := reply(t, dns.RcodeSuccess, "www.example.com. 100 IN CNAME a.example.com.", "a.example.com. 7200 IN A 192.0.2.1")
	answer.SetEdns0(4096, false)
	answer.AuthenticatedData = true
	soa, _ := dns.NewRR("example.com. 50 IN SOA a. b. 1 2 3 4 5")
	answer.Ns = []dns.RR{soa}
	s, err := Store(answer, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*dns.Msg)
		age    time.Duration
		stale  uint32
		ttls   string
		ad     bool
	}{
		{"new", nil, 0, 0, "100 3600 50", false},
		{"aged", func(m *dns.Msg) { m.SetEdns0(1232, true) }, 60500 * time.Millisecond, 0, "40 3540 0", true},
		{"stale", func(m *dns.Msg) { m.AuthenticatedData = true }, 0, 30, "30 30 30", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := asked(t, tt.change)
			data := s.AppendTo([]byte("xx"), q, MaxUDP, tt.age, tt.stale)
			got := unpack(t, data[2:])
			b := Begin(nil, q, MaxUDP)
			s.Write(b, true, tt.age, tt.stale)
			written := unpack(t, b.Finish(dns.RcodeSuccess, false))
			if len(written.Answer) != 2 || len(written.Ns) != 1 || written.Answer[0].Header().Name != "www.example.com." {
				t.Errorf("wrote %v", written)
			}
			for _, m := range []*dns.Msg{got, written} {
				ttls := fmt.Sprint(m.Answer[0].Header().Ttl, m.Answer[1].Header().Ttl, m.Ns[0].Header().Ttl)
				if ttls != tt.ttls {
					t.Errorf("got times to live %s, want %s", ttls, tt.ttls)
				}
			}
			if got.Question[0].Name != "wWw.Example.com." || got.Answer[0].Header().Name != "wWw.Example.com." || got.Id != 7 {
				t.Errorf("got %v", got)
			}
			if got.AuthenticatedData != tt.ad || (got.IsEdns0() != nil) != q.EDNS || got.Truncated {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestStoredSections(t *testing.T) {
	answer := reply(t, dns.RcodeSuccess, "www.example.com. 100 IN CNAME a.example.com.", "a.example.com. 20 IN A 192.0.2.1")
	extra, _ := dns.NewRR("mail.example.com. 5 IN A 192.0.2.2")
	answer.Extra = []dns.RR{extra}
	s, err := Store(answer, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, others := range []bool{false, true} {
		b := Begin(nil, asked(t, nil), MaxUDP)
		s.Write(b, others, 0, 0)
		got := unpack(t, b.Finish(dns.RcodeSuccess, false))
		if len(got.Answer) != 2 || len(got.Ns) != 0 || (len(got.Extra) == 1) != others {
			t.Errorf("with others: %v: wrote %v", others, got)
		}
	}
	for _, tt := range []struct {
		longest uint32
		age     time.Duration
		stale   uint32
		want    uint32
	}{{30, 0, 0, 20}, {10, 0, 0, 10}, {30, 15 * time.Second, 0, 5}, {30, time.Minute, 0, 0}, {50, time.Minute, 40, 40}, {30, time.Minute, 40, 30}} {
		if got := s.TTL(tt.longest, tt.age, tt.stale); got != tt.want {
			t.Errorf("%+v: got %d", tt, got)
		}
	}
}

func TestStoredTruncates(t *testing.T) {
	var records []string
	for i := range 100 {
		records = append(records, fmt.Sprintf("www.example.com. 60 IN A 192.0.2.%d", i))
	}
	s, err := Store(reply(t, dns.RcodeSuccess, records...), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{12, 512, 600, 1232, MaxTCP} {
		for _, edns := range []bool{false, true} {
			q := asked(t, func(m *dns.Msg) {
				if edns {
					m.SetEdns0(1232, false)
				}
			})
			data := s.AppendTo(nil, q, limit, 0, 0)
			got := unpack(t, data)
			if got.Truncated != (limit < MaxTCP) || len(data) > max(limit, 44) || (got.IsEdns0() != nil) != edns {
				t.Errorf("limit %d: got %d bytes, %d records, truncated: %v", limit, len(data), len(got.Answer), got.Truncated)
			}
			if limit == MaxTCP && len(got.Answer) != 100 || limit == 512 && len(got.Answer) < 28 {
				t.Errorf("limit %d: got %d records", limit, len(got.Answer))
			}
		}
	}
}

func TestStoredTimes(t *testing.T) {
	answer := reply(t, dns.RcodeSuccess, "www.example.com. 1 IN A 192.0.2.1")
	answer.Answer[0].Header().Ttl = 1 << 31
	s, err := Store(answer, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got := unpack(t, s.AppendTo(nil, asked(t, nil), MaxUDP, 0, 0)); got.Answer[0].Header().Ttl != 0 {
		t.Errorf("got %v", got)
	}
	if s.Rcode() != dns.RcodeSuccess || s.Answers() != 1 || s.Size() < 49 {
		t.Errorf("got %+v", s)
	}
}
