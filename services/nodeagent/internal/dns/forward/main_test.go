package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	first  = netip.MustParseAddrPort("192.0.2.1:53")
	second = netip.MustParseAddrPort("192.0.2.2:53")
)

var errAway = errors.New("no route to host")

// world is the servers that a Forwarder under test asks.
type world struct {
	t       *testing.T
	f       *Forwarder
	metrics *prometheus.Registry

	mu sync.Mutex
	// takes is how long each server takes, away whether it does not answer, code what it answers.
	takes map[netip.AddrPort]time.Duration
	away  map[netip.AddrPort]bool
	codes map[netip.AddrPort]int
	// records are what all servers know; asked are the questions that came, as server and name.
	records map[string][]string
	asked   []string
}

// newWorld starts a Forwarder that asks two servers, in the bubble of a test.
func newWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	w := &world{
		t: t, metrics: prometheus.NewRegistry(), takes: map[netip.AddrPort]time.Duration{}, away: map[netip.AddrPort]bool{},
		codes: map[netip.AddrPort]int{}, records: map[string][]string{},
	}
	cfg := Config{
		StubDomains: map[string][]netip.AddrPort{".": {first, second}},
		Server:      "dns://:53", Logger: slog.New(slog.DiscardHandler), Registerer: w.metrics,
	}
	if change != nil {
		change(&cfg)
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	f.exchange = w.exchange
	w.f = f
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// set changes the servers.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func (w *world) exchange(ctx context.Context, server netip.AddrPort, q *query) (*dns.Msg, error) {
	w.mu.Lock()
	if q.kind != dns.TypeHINFO {
		w.asked = append(w.asked, fmt.Sprintf("%s %s", server.Addr(), q.name.String()))
	}
	takes, away, code := w.takes[server], w.away[server], w.codes[server]
	records, exists := w.records[q.name.String()]
	w.mu.Unlock()
	if away {
		takes = time.Hour
	}
	if takes > 0 {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, errAway
		}
	}
	answer := new(dns.Msg).SetQuestion(q.name.String(), q.kind)
	answer.Response, answer.Rcode = true, code
	if code == dns.RcodeFormatError && q.plain {
		answer.Rcode = dns.RcodeSuccess
	}
	if code != dns.RcodeSuccess && !q.plain {
		return answer, nil
	}
	if !exists {
		answer.Rcode = dns.RcodeNameError
	}
	for _, text := range records {
		rr, err := dns.NewRR(text)
		if err != nil {
			return nil, err
		}
		if rr.Header().Rrtype == dns.TypeSOA {
			answer.Ns = append(answer.Ns, rr)
		} else {
			answer.Answer = append(answer.Answer, rr)
		}
	}
	return answer, nil
}

// count returns how many questions about a name came, and forgets them.
func (w *world) count(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, asked := range w.asked {
		if strings.HasSuffix(asked, " "+name) {
			n++
		}
	}
	w.asked = nil
	return n
}

func about(t testing.TB, name string, kind uint16) *Query {
	t.Helper()
	parsed, err := wire.ParseName(name)
	if err != nil {
		t.Fatal(err)
	}
	return &Query{Name: parsed, Type: kind}
}

// resolve asks for the A records of a name, and returns the answer as text.
func (w *world) resolve(name string) string {
	w.t.Helper()
	return w.show(w.f.Resolve(w.t.Context(), about(w.t, name, dns.TypeA)))
}

// cached returns the answer that the cache has; the empty string if it has none.
func (w *world) cached(name string) string {
	w.t.Helper()
	answer, ok := w.f.Cached(about(w.t, name, dns.TypeA))
	if !ok {
		return ""
	}
	return w.show(answer, nil)
}

func (w *world) show(answer Answer, err error) string {
	w.t.Helper()
	if err != nil {
		return "error"
	}
	message := new(dns.Msg)
	if err := message.Unpack(answer.AppendTo(nil, new(wire.Question), wire.MaxTCP)); err != nil {
		w.t.Fatal(err)
	}
	parts := []string{dns.RcodeToString[answer.Rcode()]}
	for _, rr := range message.Answer {
		if a, ok := rr.(*dns.A); ok {
			parts = append(parts, fmt.Sprintf("%s for %d s", a.A, a.Hdr.Ttl))
		}
	}
	return strings.Join(parts, " ")
}

// metric returns the value of a counter, summed over all labels.
func (w *world) metric(name string) (value float64) {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return value
}
