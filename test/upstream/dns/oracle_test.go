// Package upstreamdns compares the node agent's DNS server with CoreDNS.
package upstreamdns

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	ours "github.com/garboard/garboard/services/nodeagent/internal/dns"
)

// names returns the names to ask about: those of all objects, and such that are close to them.
func names() []string {
	var list []string
	prefixes := []string{
		"", "_http._tcp.", "_dns._udp.", "_HTTP._TCP.", "http.tcp.", "_http._udp.", "_metrics._tcp.", "_._.", "_._tcp.", "_tcp.", "x.", "x.y.", "a.b.c.",
		"zero.", "two.", "named.", "unready.", "solo.", "10-1-0-1.", "10-1-0-2.", "10-1-0-5.", "10-1-0-6.", "fd00-1---0.", "fd00-1--0.", "ZERO.",
	}
	services := []string{
		"web.a", "dual.a", "six.a", "portless.a", "pending.a", "headless.a", "nobody.a", "unready.a", "bare.a", "orphan.a", "outside.a", "gone.a",
		"address.a", "inside.a", "itself.a", "chain.a", "nowhere.a", "pod.a", "dotted.a", "loop1.a", "web.b", "WEB.A", "web.empty", "web.c", "x.a",
	}
	for _, s := range services {
		for _, p := range prefixes {
			list = append(list, p+s+".svc.cluster.local.")
		}
	}
	for _, pod := range []string{
		"10-1-2-3.a", "10-1-2-3.empty", "10-1-2-3.c", "10-1-2.a", "10-1-2-300.a", "fd00--1.a", "FD00--1.a", "1-2-3-4-5-6-7-8.a", "--1.a", "web.a",
		"x.10-1-2-3.a", "x.y.10-1-2-3.a", "x.y.z.10-1-2-3.a", "a", "empty", "c",
	} {
		list = append(list, pod+".pod.cluster.local.")
	}
	list = append(list, "cluster.local.", "Cluster.Local.", "svc.cluster.local.", "pod.cluster.local.", "a.svc.cluster.local.", "empty.svc.cluster.local.",
		"c.svc.cluster.local.", "x.cluster.local.", "x.y.cluster.local.", "dns-version.cluster.local.", "x.dns-version.cluster.local.",
		"dns.cluster.local.", "svc.svc.cluster.local.", "pod.svc.cluster.local.")
	for _, addr := range []string{
		"10.0.0.1", "10.0.0.2", "10.0.0.5", "10.1.0.1", "10.1.0.2", "10.1.0.3", "10.1.0.4", "10.1.0.5", "10.1.0.7", "10.1.0.11", "9.9.9.9", "fd00::2", "fd00::3",
		"fd00:1::4", "fd00:1::", "fd00::9",
	} {
		reverse, _ := dns.ReverseAddr(addr)
		list = append(list, reverse)
	}
	return append(list, "0.0.10.in-addr.arpa.", "in-addr.arpa.", "www.example.com.", "example.com.", "EXAMPLE.com.", "missing.example.com.", ".", "local.")
}

var types = []uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeCNAME, dns.TypePTR, dns.TypeTXT, dns.TypeMX, dns.TypeNS, dns.TypeSOA, dns.TypeHTTPS, dns.TypeNAPTR,
}

// differs returns why an answer differs on purpose; the empty string for most.
func differs(name string, kind uint16, got, want string) string {
	lower := strings.ToLower(name)
	aliasTTL := regexp.MustCompile(`cluster\.local\. \d+ IN CNAME`)
	switch {
	case kind == dns.TypeSOA && (strings.Replace(got, "NXDOMAIN", "NOERROR", 1) == want || strings.HasSuffix(lower, ".arpa.")):
		return "a name that does not exist does not, whatever is asked; the names of addresses are not all the server's own"
	case kind == dns.TypeTXT && strings.Replace(want, "NXDOMAIN", "NOERROR", 1) == got:
		return "a name that exists does, whatever is asked"
	case kind == dns.TypeNS && (lower == "cluster.local." || strings.HasSuffix(lower, ".arpa.")):
		return "the name server is ns.dns.<zone>, with the addresses that the server listens on"
	case strings.Contains(lower, ".pod.") && kind == dns.TypeSRV:
		return "pods have no ports"
	case strings.Contains(lower, "pending.") && strings.HasSuffix(want, " IN CNAME ."):
		return "a Service without an address is no alias of the root"
	case aliasTTL.ReplaceAllString(got, "") == aliasTTL.ReplaceAllString(want, "") && aliasTTL.MatchString(got):
		return "the alias that a search adds holds as long as the records of the zone"
	case strings.HasPrefix(want, "SERVFAIL") && strings.Contains(got, "NOERROR; authoritative: true; authority"):
		return "a search for the first search domain itself is no failure"
	case strings.Count(want, " "+name+" ") == strings.Count(got, " "+name+" ")+1 && strings.Contains(want, " IN CNAME "):
		return "an alias is answered once"
	case strings.EqualFold(aliasTTL.ReplaceAllString(got, ""), aliasTTL.ReplaceAllString(want, "")) && strings.Contains(strings.ToLower(got), "example.com."):
		return "other servers are asked in lower case"
	case lower == "in-addr.arpa.":
		return "the server has no zones of addresses, only names in them"
	}
	return ""
}

func TestAnswers(t *testing.T) {
	list := objects()
	upstream := startUpstream(t)
	theirs := startCoreDNS(t, fmt.Sprintf(`
		kubernetes cluster.local in-addr.arpa ip6.arpa {
			endpoint %s
			pods insecure
			fallthrough in-addr.arpa ip6.arpa
			ttl 30
		}
		forward . %s`, serveAPI(t, list), upstream))
	our := startOurs(t, list, upstream, nil)
	compare(t, theirs, our, names(), types)
}

// TestSearch compares searches with those of CoreDNS' plugin autopath.
func TestSearch(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: meta("a", "client")}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}}}
	list := append(objects(), scheme.Object(pod))
	upstream := startUpstream(t)
	theirs := startCoreDNS(t, fmt.Sprintf(`
		autopath @kubernetes
		kubernetes cluster.local in-addr.arpa ip6.arpa {
			endpoint %s
			pods verified
			fallthrough in-addr.arpa ip6.arpa
			ttl 30
		}
		forward . %s`, serveAPI(t, list), upstream))
	our := startOurs(t, list, upstream, func(cfg *ours.Config) {
		cfg.PodNamespace = func(addr netip.Addr) (string, bool) { return "a", addr == netip.MustParseAddr("127.0.0.1") }
	})
	var names []string
	for _, base := range []string{
		"www.example.com", "Www.Example.com", "example.com", "missing.example.com", "web", "web.b", "web.b.svc", "web.b.svc.cluster.local", "headless.a", "outside.a",
		"x", "zero.headless", "zero.headless.a", "_http._tcp.web.b", "chain.a", "a", "b",
	} {
		for _, search := range []string{"a.svc.cluster.local.", "b.svc.cluster.local.", "svc.cluster.local.", "cluster.local."} {
			names = append(names, base+"."+search)
		}
	}
	compare(t, theirs, our, names, []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV})
}

// compare asks both servers all questions.
func compare(t *testing.T, theirs, our string, names []string, types []uint16) {
	t.Helper()
	asked, different := 0, 0
	// CoreDNS answers before it knows all objects.
	for began := time.Now(); ask(t, theirs, "web.b.svc.cluster.local.", dns.TypeA) != ask(t, our, "web.b.svc.cluster.local.", dns.TypeA); {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("CoreDNS answers %s", ask(t, theirs, "web.b.svc.cluster.local.", dns.TypeA))
		}
	}
	for _, name := range names {
		for _, kind := range types {
			asked++
			got, want := ask(t, our, name, kind), ask(t, theirs, name, kind)
			if got == want {
				continue
			}
			different++
			if differs(name, kind, got, want) == "" {
				t.Errorf("%s %s: got\n  %s, CoreDNS\n  %s", name, dns.TypeToString[kind], got, want)
			}
		}
	}
	t.Logf("asked %d questions, of which %d have different answers", asked, different)
}

// ask returns an answer as text, without what differs from time to time.
func ask(t *testing.T, server, name string, kind uint16) string {
	t.Helper()
	client := dns.Client{Net: "udp", Timeout: 10 * time.Second, UDPSize: 65535}
	question := new(dns.Msg).SetQuestion(name, kind)
	question.SetEdns0(1232, false)
	answer, _, err := client.Exchange(question, server)
	if err != nil {
		return "error: " + err.Error()
	}
	parts := []string{dns.RcodeToString[answer.Rcode], fmt.Sprintf("authoritative: %v", answer.Authoritative)}
	for i, records := range [][]dns.RR{answer.Answer, answer.Ns, answer.Extra} {
		var lines []string
		for _, rr := range records {
			if _, ok := rr.(*dns.OPT); ok {
				continue
			}
			if header := rr.Header(); header.Ttl > 100 {
				header.Ttl = (header.Ttl + 99) / 100 * 100 // Ours has kept it for a while.
			}
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
			lines = append(lines, strings.ReplaceAll(rr.String(), "\t", " "))
		}
		slices.Sort(lines)
		if len(lines) > 0 {
			parts = append(parts, []string{"answer", "authority", "extra"}[i]+": "+strings.Join(lines, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
