package dns

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// searching makes the asker a pod of a namespace, on a node with a search domain.
func searching(t testing.TB, u *upstream, namespace string) func(*Config) {
	return func(cfg *Config) {
		u.all(cfg)
		cfg.ResolverConfig = hostFile(t, "search corp.example.com\n")
		cfg.PodNamespace = func(netip.Addr) (string, bool) { return namespace, namespace != "" }
	}
}

func TestSearch(t *testing.T) {
	zone := zoneFile{
		"www.example.com.":               "www.example.com. 60 IN CNAME host.example.com.\nhost.example.com. 10 IN A 192.0.2.1",
		"intranet.corp.example.com.":     "intranet.corp.example.com. 60 IN A 192.0.2.3",
		"failing.":                       "failing. 60 IN A 192.0.2.66",
		"failing.corp.example.com.":      "fails",
		"v4only.example.com.":            "v4only.example.com. 60 IN A 192.0.2.4",
		"web.a.svc.other.example.com.":   "web.a.svc.other.example.com. 60 IN A 192.0.2.5",
		"db.a.svc.cluster.local.":        "db.a.svc.cluster.local. 60 IN A 192.0.2.66",
		"missing.a.svc.cluster.local.":   "missing.a.svc.cluster.local. 60 IN A 192.0.2.66",
		"legacy.cluster.local.":          "legacy.cluster.local. 60 IN A 192.0.2.66",
		"www.example.com.cluster.local.": "www.example.com.cluster.local. 60 IN A 192.0.2.66",
	}
	const nxdomain, nodata = "NXDOMAIN; authority: SOA cluster.local.", "NOERROR; authority: SOA cluster.local."
	for _, tt := range []struct {
		namespace, name, kind, want string
		found                       bool
	}{
		{
			"a", "www.example.com.a.svc.cluster.local", "A", "NOERROR; host.example.com. A 192.0.2.1, " +
				"www.example.com. CNAME host.example.com., www.example.com.a.svc.cluster.local. CNAME www.example.com.", true,
		},
		{
			"a", "web.b.a.svc.cluster.local", "A", "NOERROR; web.b.a.svc.cluster.local. CNAME web.b.svc.cluster.local., " +
				"web.b.svc.cluster.local. A 10.0.0.3", true,
		},
		{
			"a", "web.b.svc.a.svc.cluster.local", "A", "NOERROR; web.b.svc.a.svc.cluster.local. CNAME web.b.svc.cluster.local., " +
				"web.b.svc.cluster.local. A 10.0.0.3", true,
		},
		{"a", "web.b.a.svc.cluster.local", "AAAA", nodata, true},
		{
			"a", "outside.a.a.svc.cluster.local", "A", "NOERROR; host.example.com. A 192.0.2.1, " +
				"outside.a.a.svc.cluster.local. CNAME outside.a.svc.cluster.local., outside.a.svc.cluster.local. CNAME www.example.com., " +
				"www.example.com. CNAME host.example.com.", true,
		},
		{
			"a", "intranet.a.svc.cluster.local", "A", "NOERROR; intranet.a.svc.cluster.local. CNAME intranet.corp.example.com., " +
				"intranet.corp.example.com. A 192.0.2.3", true,
		},
		{"a", "v4only.example.com.a.svc.cluster.local", "AAAA", "NOERROR; authority: SOA .", true},
		{"a", "nothing.example.com.a.svc.cluster.local", "A", nxdomain, false},
		{"a", "missing.a.svc.cluster.local", "A", nxdomain, false},
		// Nobody knows whether a name before this one exists.
		{"a", "failing.a.svc.cluster.local", "A", nxdomain, false},
		{
			"a", "_http._tcp.web.b.a.svc.cluster.local", "SRV", "NOERROR; _http._tcp.web.b.a.svc.cluster.local. CNAME _http._tcp.web.b.svc.cluster.local., " +
				"_http._tcp.web.b.svc.cluster.local. SRV 0 100 80 web.b.svc.cluster.local.; extra: web.b.svc.cluster.local. A 10.0.0.3", true,
		},
		// What is not the first search domain of the asker is not searched.
		{"a", "www.example.com.a.svc.cluster.local", "MX", "NOERROR; host.example.com. A 192.0.2.1, " +
			"www.example.com. CNAME host.example.com., www.example.com.a.svc.cluster.local. CNAME www.example.com.", true},
		{"a", "www.example.com.b.svc.cluster.local", "A", nxdomain, false},
		{"a", "www.example.com.svc.cluster.local", "A", nxdomain, false},
		{"a", "a.svc.cluster.local", "A", nodata, false},
		{"", "www.example.com.a.svc.cluster.local", "A", nxdomain, false},
		// A name that exists is no reason to search.
		{"a", "web.a.svc.cluster.local", "A", "NOERROR; web.a.svc.cluster.local. A 10.0.0.1", false},
	} {
		t.Run(fmt.Sprintf("%s for %q: %s", tt.name, tt.namespace, tt.kind), func(t *testing.T) {
			u := newUpstream(t, zone)
			c := newCluster(t, someObjects(), searching(t, u, tt.namespace))
			for range 2 { // The second time, from the cache.
				if got := text(c.ask("udp", question(tt.name, mdns.StringToType[tt.kind]))); got != tt.want {
					t.Errorf("got\n%s, want\n%s", got, tt.want)
				}
			}
			if got := c.metric("coredns_autopath_success_total", nil) > 0; got != tt.found {
				t.Errorf("counted a search: %v", got)
			}
			u.mu.Lock()
			defer u.mu.Unlock()
			for name, n := range u.asked {
				if n > 1 {
					t.Errorf("%s was asked %d times", name, n)
				}
			}
		})
	}
}

// TestSearchAtStart asks while the resolver configuration of the node is still being read: a named
// pipe has it, and a reader waits for its writer.
func TestSearchAtStart(t *testing.T) {
	u := newUpstream(t, zoneFile{
		"host.":                  "host. 60 IN A 192.0.2.66",
		"host.corp.example.com.": "host.corp.example.com. 60 IN A 192.0.2.1",
	})
	path := filepath.Join(t.TempDir(), "resolv.conf")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, someObjects(), func(cfg *Config) {
		searching(t, u, "a")(cfg)
		cfg.ResolverConfig = path
	})
	answers := make(chan string, 1)
	go func() {
		client := mdns.Client{Timeout: 10 * time.Second}
		answer, _, err := client.Exchange(question("host.a.svc.cluster.local", mdns.TypeA), c.addr)
		if err != nil {
			answers <- err.Error()
			return
		}
		answers <- text(answer)
	}()
	select {
	case got := <-answers:
		t.Errorf("without the configuration it answers %s", got)
	case <-time.After(200 * time.Millisecond):
	}
	conf, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	// What reads the configuration again must not wait for a writer.
	if err := os.Rename(hostFile(t, "search corp.example.com\n"), path); err != nil {
		t.Fatal(err)
	}
	if _, err := conf.WriteString("search corp.example.com\n"); err != nil {
		t.Fatal(err)
	}
	if err := conf.Close(); err != nil {
		t.Fatal(err)
	}
	const want = "NOERROR; host.a.svc.cluster.local. CNAME host.corp.example.com., host.corp.example.com. A 192.0.2.1"
	if got := <-answers; got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

// TestSearchCase checks that a search keeps the asker's upper and lower case.
func TestSearchCase(t *testing.T) {
	u := newUpstream(t, zoneFile{"www.example.com.": "www.example.com. 60 IN A 192.0.2.1"})
	c := newCluster(t, someObjects(), searching(t, u, "a"))
	const name = "wWw.eXample.com.a.svc.Cluster.local."
	for range 2 {
		answer := c.ask("udp", question(name, mdns.TypeA))
		if answer.Question[0].Name != name || len(answer.Answer) != 2 || answer.Answer[0].Header().Name != name {
			t.Errorf("got %v", answer)
		}
	}
}

// TestSearchWithoutServers checks that a search that other servers do not answer ends soon, and
// leaves the answer that the zone has.
func TestSearchWithoutServers(t *testing.T) {
	c := newCluster(t, someObjects(), func(cfg *Config) {
		cfg.PodNamespace = func(netip.Addr) (string, bool) { return "a", true }
	})
	got := text(c.ask("udp", question("www.example.com.a.svc.cluster.local", mdns.TypeA)))
	if got != "NXDOMAIN; authority: SOA cluster.local." {
		t.Errorf("got %s", got)
	}
	if got := text(c.ask("udp", question("outside.a.svc.cluster.local", mdns.TypeA))); got != "SERVFAIL" {
		t.Errorf("an alias that cannot be resolved: %s", got)
	}
	if got := text(c.ask("udp", question("www.example.com", mdns.TypeA))); got != "SERVFAIL" {
		t.Errorf("a name that cannot be resolved: %s", got)
	}
}

// TestStubInZone checks that a stub domain within the cluster's domain is not the zone's.
func TestStubInZone(t *testing.T) {
	u := newUpstream(t, zoneFile{"db.legacy.cluster.local.": "db.legacy.cluster.local. 60 IN A 192.0.2.7"})
	c := newCluster(t, someObjects(), func(cfg *Config) {
		cfg.StubDomains = map[string][]netip.AddrPort{"legacy.cluster.local": {u.addr}}
	})
	for name, want := range map[string]string{
		"db.legacy.cluster.local": "NOERROR; db.legacy.cluster.local. A 192.0.2.7",
		"web.a.svc.cluster.local": "NOERROR; web.a.svc.cluster.local. A 10.0.0.1",
		"x.cluster.local":         "NXDOMAIN; authority: SOA cluster.local.",
	} {
		if got := text(c.ask("udp", question(name, mdns.TypeA))); got != want {
			t.Errorf("%s: got %s", name, got)
		}
	}
}
