package dns

import (
	"net"
	"testing"

	mdns "github.com/miekg/dns"
)

// BenchmarkAnswer measures an answer without the network: about a name in the zone, and from the
// cache of other servers' answers.
func BenchmarkAnswer(b *testing.B) {
	u := newUpstream(b, zoneFile{"www.example.com.": "www.example.com. 3600 IN A 192.0.2.1"})
	c := newCluster(b, someObjects(), searching(b, u, "a"))
	for _, bb := range []struct {
		name, asked string
		kind        uint16
	}{
		{"zone", "web.a.svc.cluster.local", mdns.TypeA},
		{"missing", "web.c.svc.cluster.local", mdns.TypeA},
		{"service", "_http._tcp.web.a.svc.cluster.local", mdns.TypeSRV},
		{"cached", "www.example.com", mdns.TypeA},
		{"searched", "www.example.com.a.svc.cluster.local", mdns.TypeA},
	} {
		b.Run(bb.name, func(b *testing.B) {
			asked := question(bb.asked, bb.kind)
			c.ask("udp", asked)
			message, err := asked.Pack()
			if err != nil {
				b.Fatal(err)
			}
			a := ask{client: anyPort.Addr()}
			out := make([]byte, 0, 2048)
			b.ReportAllocs()
			for b.Loop() {
				answer, more := c.server.read(&a, message, out)
				if !more {
					b.Fatal("no question")
				}
				if _, err := c.server.respond(b.Context(), &a, answer); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUDP measures a question and its answer over UDP.
func BenchmarkUDP(b *testing.B) {
	c := newCluster(b, someObjects(), nil)
	message, err := question("web.a.svc.cluster.local", mdns.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("udp", c.addr)
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		answer := make([]byte, 2048)
		for pb.Next() {
			if _, err := conn.Write(message); err != nil {
				b.Error(err)
				return
			}
			if _, err := conn.Read(answer); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
