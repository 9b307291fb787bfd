package dns

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
)

// TestLoop checks that a server that forwards the questions that it gets back to this one is not asked
// any more.
func TestLoop(t *testing.T) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	known := make(chan string, 1)
	var relaying sync.WaitGroup
	t.Cleanup(relaying.Wait)
	t.Cleanup(func() { _ = conn.Close() })
	relaying.Go(func() {
		packet := make([]byte, 4096)
		back := <-known
		for {
			n, from, err := conn.ReadFromUDPAddrPort(packet)
			if err != nil {
				return
			}
			asked := new(mdns.Msg)
			if err := asked.Unpack(packet[:n]); err != nil {
				t.Error(err)
				return
			}
			relaying.Go(func() {
				client := mdns.Client{Timeout: time.Second}
				if answer, _, err := client.Exchange(asked, back); err == nil {
					packed, _ := answer.Pack()
					_, _ = conn.WriteToUDPAddrPort(packed, from)
				}
			})
		}
	})
	c := newCluster(t, someObjects(), func(cfg *Config) {
		cfg.StubDomains = map[string][]netip.AddrPort{".": {netip.MustParseAddrPort(conn.LocalAddr().String())}}
	})
	known <- c.addr
	for began := time.Now(); ; {
		asked := time.Now()
		got := text(c.ask("udp", question("www.example.com", mdns.TypeA)))
		if got == "SERVFAIL" && time.Since(asked) < 500*time.Millisecond {
			break
		}
		if time.Since(began) > 20*time.Second {
			t.Fatalf("got %s after %v", got, time.Since(asked))
		}
	}
	if got := text(c.ask("udp", question("web.a.svc.cluster.local", mdns.TypeA))); got != "NOERROR; web.a.svc.cluster.local. A 10.0.0.1" {
		t.Errorf("got %s", got)
	}
}
