package dns

import (
	"fmt"
	"testing"

	mdns "github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// someObjects are Services of all kinds, with endpoints.
func someObjects() []scheme.Object {
	noPorts := service("a", "portless", clusterIPs("None"))
	noPorts.Spec.Ports = nil
	portless := slice("a", "portless", "portless-1", "10.1.0.9/solo")
	portless.Ports = nil
	return []scheme.Object{
		service("a", "web", clusterIPs("10.0.0.1")),
		slice("a", "web", "web-1", "10.1.0.1", "10.1.0.2/named"),
		service("a", "dual", func(spec *corev1.ServiceSpec) {
			clusterIPs("10.0.0.2", "fd00::2")(spec)
			spec.Ports = append(spec.Ports, corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53})
		}),
		service("a", "headless", clusterIPs("None")),
		slice("a", "headless", "headless-1", "10.1.0.3/zero", "10.1.0.4", "-10.1.0.5/two"),
		slice("a", "headless", "headless-2", "fd00:1::/six"),
		service("a", "nobody", clusterIPs("None")),
		service("a", "pending", func(*corev1.ServiceSpec) {}),
		noPorts, portless,
		service("a", "outside", func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "Www.Example.com"
		}),
		service("a", "gone", func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "missing.example.com"
		}),
		service("a", "address", func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "10.9.9.9"
		}),
		service("a", "inside", func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "web.a.svc.cluster.local"
		}),
		service("a", "self", func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "self.a.svc.cluster.local"
		}),
		service("b", "web", clusterIPs("10.0.0.3")),
	}
}

func TestZone(t *testing.T) {
	u := newUpstream(t, zoneFile{
		"www.example.com.":          "www.example.com. 60 IN CNAME host.example.com.\nhost.example.com. 60 IN A 192.0.2.1",
		"9.9.1.10.in-addr.arpa.":    "9.9.1.10.in-addr.arpa. 60 IN PTR other.example.com.",
		"example.com.":              "example.com. 60 IN MX 10 mail.example.com.",
		"elsewhere.cluster.locale.": "elsewhere.cluster.locale. 60 IN A 192.0.2.2",
	})
	c := newCluster(t, someObjects(), u.all)
	const nxdomain, nodata = "NXDOMAIN; authority: SOA cluster.local.", "NOERROR; authority: SOA cluster.local."
	for _, tt := range []struct {
		name, kind, want string
	}{
		{"web.a.svc.cluster.local", "A", "NOERROR; web.a.svc.cluster.local. A 10.0.0.1"},
		{"WEB.a.Svc.cluster.LOCAL", "A", "NOERROR; WEB.a.Svc.cluster.LOCAL. A 10.0.0.1"},
		{"web.a.svc.cluster.local", "AAAA", nodata},
		{"web.a.svc.cluster.local", "TXT", nodata},
		{"web.a.svc.cluster.local", "MX", nodata},
		{"web.a.svc.cluster.local", "CNAME", nodata},
		{"web.b.svc.cluster.local", "A", "NOERROR; web.b.svc.cluster.local. A 10.0.0.3"},
		{"web.c.svc.cluster.local", "A", nxdomain},
		{"web.svc.cluster.local", "A", nxdomain},
		{"a.svc.cluster.local", "A", nodata},
		{"c.svc.cluster.local", "A", nxdomain},
		{"svc.cluster.local", "A", nodata},
		{"pod.cluster.local", "A", nodata},
		{"cluster.local", "A", nodata},
		{"cluster.local", "SOA", "NOERROR; SOA cluster.local."},
		{"svc.cluster.local", "SOA", nodata},
		{"cluster.local", "NS", "NOERROR; cluster.local. NS ns.dns.cluster.local."},
		{"ns.dns.cluster.local", "A", "NOERROR; ns.dns.cluster.local. A 127.0.0.1"},
		{"dns.cluster.local", "A", nxdomain},
		{"x.cluster.local", "A", nxdomain},
		{"dns-version.cluster.local", "TXT", `NOERROR; dns-version.cluster.local. TXT "1.1.0"`},
		{"dns-version.cluster.local", "A", nxdomain},
		{"dual.a.svc.cluster.local", "A", "NOERROR; dual.a.svc.cluster.local. A 10.0.0.2"},
		{"dual.a.svc.cluster.local", "AAAA", "NOERROR; dual.a.svc.cluster.local. AAAA fd00::2"},
		{
			"_http._tcp.web.a.svc.cluster.local", "SRV",
			"NOERROR; _http._tcp.web.a.svc.cluster.local. SRV 0 100 80 web.a.svc.cluster.local.; extra: web.a.svc.cluster.local. A 10.0.0.1",
		},
		{"_http._udp.web.a.svc.cluster.local", "SRV", nxdomain},
		{"_http._tcp.web.a.svc.cluster.local", "A", "NOERROR; _http._tcp.web.a.svc.cluster.local. A 10.0.0.1"},
		{"_tcp.web.a.svc.cluster.local", "SRV", nxdomain},
		{"x._http._tcp.web.a.svc.cluster.local", "SRV", nxdomain},
		{
			"dual.a.svc.cluster.local", "SRV", "NOERROR; " +
				"dual.a.svc.cluster.local. SRV 0 25 53 dual.a.svc.cluster.local., dual.a.svc.cluster.local. SRV 0 25 80 dual.a.svc.cluster.local.; " +
				"extra: dual.a.svc.cluster.local. A 10.0.0.2, dual.a.svc.cluster.local. AAAA fd00::2",
		},
		{"10-1-0-1.web.a.svc.cluster.local", "A", "NOERROR; 10-1-0-1.web.a.svc.cluster.local. A 10.1.0.1"},
		{"named.web.a.svc.cluster.local", "A", "NOERROR; named.web.a.svc.cluster.local. A 10.1.0.2"},
		{"10-1-0-2.web.a.svc.cluster.local", "A", nxdomain},
		{"headless.a.svc.cluster.local", "A", "NOERROR; headless.a.svc.cluster.local. A 10.1.0.3, headless.a.svc.cluster.local. A 10.1.0.4"},
		{"headless.a.svc.cluster.local", "AAAA", "NOERROR; headless.a.svc.cluster.local. AAAA fd00:1::"},
		{"zero.headless.a.svc.cluster.local", "A", "NOERROR; zero.headless.a.svc.cluster.local. A 10.1.0.3"},
		{"zero.headless.a.svc.cluster.local", "AAAA", nodata},
		{"two.headless.a.svc.cluster.local", "A", nxdomain},
		{
			"_http._tcp.headless.a.svc.cluster.local", "SRV", "NOERROR; " +
				"_http._tcp.headless.a.svc.cluster.local. SRV 0 33 8080 10-1-0-4.headless.a.svc.cluster.local., " +
				"_http._tcp.headless.a.svc.cluster.local. SRV 0 33 8080 six.headless.a.svc.cluster.local., " +
				"_http._tcp.headless.a.svc.cluster.local. SRV 0 33 8080 zero.headless.a.svc.cluster.local.; extra: " +
				"10-1-0-4.headless.a.svc.cluster.local. A 10.1.0.4, six.headless.a.svc.cluster.local. AAAA fd00:1::, " +
				"zero.headless.a.svc.cluster.local. A 10.1.0.3",
		},
		{"nobody.a.svc.cluster.local", "A", nxdomain},
		{"pending.a.svc.cluster.local", "A", nodata},
		{"portless.a.svc.cluster.local", "A", "NOERROR; portless.a.svc.cluster.local. A 10.1.0.9"},
		{"portless.a.svc.cluster.local", "SRV", nodata},
		{
			"outside.a.svc.cluster.local", "A", "NOERROR; host.example.com. A 192.0.2.1, " +
				"outside.a.svc.cluster.local. CNAME www.example.com., www.example.com. CNAME host.example.com.",
		},
		{"outside.a.svc.cluster.local", "CNAME", "NOERROR; outside.a.svc.cluster.local. CNAME www.example.com."},
		{"outside.a.svc.cluster.local", "SRV", nodata},
		{"x.outside.a.svc.cluster.local", "A", nxdomain},
		{"gone.a.svc.cluster.local", "A", "NOERROR; gone.a.svc.cluster.local. CNAME missing.example.com."},
		{"address.a.svc.cluster.local", "A", nxdomain},
		{"inside.a.svc.cluster.local", "A", "NOERROR; inside.a.svc.cluster.local. CNAME web.a.svc.cluster.local., web.a.svc.cluster.local. A 10.0.0.1"},
		{"inside.a.svc.cluster.local", "AAAA", nodata},
		{"self.a.svc.cluster.local", "A", nodata},
		{"10-2-3-4.a.pod.cluster.local", "A", "NOERROR; 10-2-3-4.a.pod.cluster.local. A 10.2.3.4"},
		{"10-2-3-4.a.pod.cluster.local", "AAAA", nodata},
		{"fd00--7.a.pod.cluster.local", "AAAA", "NOERROR; fd00--7.a.pod.cluster.local. AAAA fd00::7"},
		{"10-2-3.a.pod.cluster.local", "A", nxdomain},
		{"a.pod.cluster.local", "A", nodata},
		{"1.0.0.10.in-addr.arpa", "PTR", "NOERROR; 1.0.0.10.in-addr.arpa. PTR web.a.svc.cluster.local."},
		{"3.0.1.10.in-addr.arpa", "PTR", "NOERROR; 3.0.1.10.in-addr.arpa. PTR zero.headless.a.svc.cluster.local."},
		{"4.0.1.10.in-addr.arpa", "PTR", "NOERROR; 4.0.1.10.in-addr.arpa. PTR 10-1-0-4.headless.a.svc.cluster.local."},
		{"5.0.1.10.in-addr.arpa", "PTR", "NXDOMAIN; authority: SOA ."},
		{"9.9.1.10.in-addr.arpa", "PTR", "NOERROR; 9.9.1.10.in-addr.arpa. PTR other.example.com."},
		{
			"2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa", "PTR",
			"NOERROR; 2.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR dual.a.svc.cluster.local.",
		},
		{"example.com", "MX", "NOERROR; example.com. MX 10 mail.example.com."},
		{"nothing.example.com", "A", "NXDOMAIN; authority: SOA ."},
		{"elsewhere.cluster.locale", "A", "NOERROR; elsewhere.cluster.locale. A 192.0.2.2"},
		{"web.a.svc.cluster.local", "ANY", `NOERROR; web.a.svc.cluster.local. HINFO "RFC8482" ""`},
		{"cluster.local", "AXFR", "REFUSED"},
	} {
		t.Run(fmt.Sprintf("%s %s", tt.name, tt.kind), func(t *testing.T) {
			networks := []string{"udp", "tcp"}
			if tt.kind == "AXFR" {
				networks = networks[:1] // The client expects another protocol.
			}
			for _, network := range networks {
				asked := question(tt.name, mdns.StringToType[tt.kind])
				answer := c.ask(network, asked)
				if got := text(answer); got != tt.want {
					t.Errorf("over %s got\n%s, want\n%s", network, got, tt.want)
				}
			}
		})
	}
}
