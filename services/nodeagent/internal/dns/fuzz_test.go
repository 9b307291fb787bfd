package dns

import (
	"errors"
	"log/slog"
	"net/netip"
	"testing"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

// FuzzQuestion checks that no message makes the server panic, and that what it answers is a message
// of allowed size that belongs to the question.
func FuzzQuestion(f *testing.F) {
	table, quiet := scheme.New(), slog.New(slog.DiscardHandler)
	s := New(Config{
		Factory: informer.NewFactory(informer.FactoryConfig{Source: listwatch.New(fake.New(table), quiet), Table: table, Logger: quiet}),
		Domain:  "cluster.local", Clients: func(netip.Addr) bool { return true }, Logger: quiet,
		PodNamespace: func(netip.Addr) (string, bool) { return "a", true },
	})
	for _, object := range someObjects() {
		switch object := object.(type) {
		case *corev1.Service:
			s.zone.SetService(object)
		case *discoveryv1.EndpointSlice:
			s.zone.SetSlice(object)
		}
	}
	s.zone.MarkSynced()
	for _, name := range []string{
		"web.a.svc.cluster.local", "x.a.svc.cluster.local", "_http._tcp.headless.a.svc.cluster.local", "cluster.local", "inside.a.svc.cluster.local",
		"outside.a.svc.cluster.local", "1.0.0.10.in-addr.arpa", "10-1-2-3.a.pod.cluster.local", "www.example.com", ".", "dns-version.cluster.local",
	} {
		for _, kind := range []uint16{mdns.TypeA, mdns.TypeSRV, mdns.TypePTR, mdns.TypeANY, mdns.TypeTXT, mdns.TypeSOA, mdns.TypeNS} {
			m := question(name, kind)
			if kind == mdns.TypeSRV {
				m.SetEdns0(1232, true)
			}
			packed, err := m.Pack()
			if err != nil {
				f.Fatal(err)
			}
			f.Add(packed, kind == mdns.TypeA)
		}
	}
	f.Fuzz(func(t *testing.T, message []byte, tcp bool) {
		a := ask{client: anyPort.Addr(), tcp: tcp}
		answer, more := s.read(&a, message, nil)
		if more {
			var err error
			answer, err = s.respond(t.Context(), &a, answer)
			if errors.Is(err, errLater) {
				return
			}
			if err != nil || len(answer) == 0 {
				t.Fatalf("no answer to %q: %v", message, err)
			}
		}
		if len(answer) == 0 {
			return
		}
		got := new(mdns.Msg)
		if err := got.Unpack(answer); err != nil {
			t.Fatalf("the answer %q to %q is none: %v", answer, message, err)
		}
		if !got.Response || got.Id != uint16(message[0])<<8|uint16(message[1]) || !tcp && len(answer) > wire.MaxUDP {
			t.Errorf("the answer to %q is %v", message, got)
		}
	})
}
