package forward

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// showConf returns what was read, as text.
func showConf(conf hostConf) string {
	parts := []string{}
	for _, server := range conf.servers {
		parts = append(parts, server.String())
	}
	for _, search := range conf.searches {
		parts = append(parts, search.String())
	}
	return strings.Join(parts, " ")
}

func TestParseHostConf(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"nameserver 192.0.2.1\nnameserver 2001:db8::1", "192.0.2.1:53 [2001:db8::1]:53"},
		{"nameserver 192.0.2.1\nnameserver 192.0.2.1", "192.0.2.1:53"},
		{"nameserver ::ffff:192.0.2.1", "192.0.2.1:53"},
		{"nameserver fe80::1%eth0", "[fe80::1%eth0]:53"},
		{"nameserver\nnameserver x\n# nameserver 192.0.2.1\n; nameserver 192.0.2.1", ""},
		{"search Example.com . a..b example.org.", "example.com. example.org."},
		{"search example.com\ndomain example.org", "example.org."},
		{"options ndots:2", ""},
		{strings.Repeat("search a\n", 3), "a."},
	} {
		if got := showConf(parseHostConf(tt.text)); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.text, got, tt.want)
		}
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "nameserver 192.0.2.%d\n", i)
	}
	conf := parseHostConf(many.String() + "search" + strings.Repeat(" a", 100))
	if len(conf.servers) != maxServers || len(conf.searches) != maxSearches {
		t.Errorf("got %d servers and %d search domains", len(conf.servers), len(conf.searches))
	}
}

func FuzzResolvConf(f *testing.F) {
	f.Add("nameserver 192.0.2.1\nsearch a b\n")
	f.Add("nameserver fe80::1%1\ndomain .\nsearch \\000.\\..")
	f.Fuzz(func(t *testing.T, text string) {
		conf := parseHostConf(text)
		if len(conf.servers) > maxServers || len(conf.searches) > maxSearches {
			t.Errorf("got %d servers and %d search domains", len(conf.servers), len(conf.searches))
		}
		for _, server := range conf.servers {
			if !server.IsValid() {
				t.Errorf("got server %v", server)
			}
		}
		for _, search := range conf.searches {
			if search.Labels() == 0 || search.String() == "" {
				t.Errorf("got search domain %q", search.String())
			}
		}
	})
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestReload(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(cfg *Config) {
			cfg.StubDomains = map[string][]netip.AddrPort{"stub.example.com": {second}}
			cfg.ResolverConfig = path
			cfg.Own = func(addr netip.AddrPort) bool { return addr == netip.MustParseAddrPort("192.0.2.7:53") }
		})
		synctest.Wait()
		expect(t, "without the file", w.resolve("a."), "error")
		write(t, path, "nameserver 192.0.2.7\nnameserver 192.0.2.1\nsearch example.com\n")
		time.Sleep(reloadTime)
		synctest.Wait()
		searches := w.f.Searches()
		if len(searches) != 1 || searches[0].String() != "example.com." {
			t.Errorf("got search domains %v", searches)
		}
		w.resolve("b.")
		w.resolve("b.stub.example.com.")
		w.resolve("bstub.example.com.")
		w.set(func() {
			expect(t, "asked", fmt.Sprint(w.asked), "[192.0.2.1 b. 192.0.2.2 b.stub.example.com. 192.0.2.1 bstub.example.com.]")
		})
		known := w.f.routes.Load().servers[0]
		write(t, path, "nameserver 192.0.2.2\nnameserver 192.0.2.1\n")
		time.Sleep(reloadTime)
		synctest.Wait()
		if servers := w.f.routes.Load().servers; len(servers) != 2 || servers[1] != known || servers[0] != w.f.routes.Load().stubs[0].servers[0] {
			t.Error("servers that were known are new")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		time.Sleep(reloadTime)
		synctest.Wait()
		expect(t, "when the file is gone", w.resolve("c."), "NXDOMAIN")
	})
}

func TestStub(t *testing.T) {
	f, err := New(Config{
		StubDomains: map[string][]netip.AddrPort{"legacy.cluster.local": {first}, "cluster.local": {second}, "local": {second}},
		Logger:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.routes.Store(f.route(hostConf{}, map[netip.AddrPort]*upstream{}))
	domain := about(t, "cluster.local", dns.TypeA).Name
	for name, want := range map[string]bool{
		"a.legacy.cluster.local": true, "legacy.cluster.local": true, "a.cluster.local": false, "cluster.local": false, "b.local": false,
	} {
		if got := f.Stub(&about(t, name, dns.TypeA).Name, &domain); got != want {
			t.Errorf("%s is a stub's: %v", name, got)
		}
	}
	if _, err := New(Config{StubDomains: map[string][]netip.AddrPort{"a..b": nil}}); err == nil {
		t.Error("accepted a stub domain that is no name")
	}
}

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		synctest.Wait()
		mark := w.f.routes.Load().stubs[0].servers[0].mark
		other := about(t, "a.", dns.TypeHINFO).Name
		if w.f.Looped(&other, dns.TypeHINFO) || w.f.Looped(&mark, dns.TypeA) {
			t.Error("found a loop without one")
		}
		if !w.f.Looped(&mark, dns.TypeHINFO) {
			t.Fatal("found no loop")
		}
		w.resolve("a.")
		w.set(func() { expect(t, "asked", fmt.Sprint(w.asked), "[192.0.2.2 a.]") })
		time.Sleep(markTime)
		synctest.Wait()
		w.count("a.")
		w.resolve("b.")
		w.set(func() { expect(t, "asked when the loop may be gone", fmt.Sprint(w.asked), "[192.0.2.1 b.]") })
	})
}
