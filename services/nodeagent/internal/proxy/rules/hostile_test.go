package rules_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

func compile(s *corev1.Service, endpoints ...discoveryv1.Endpoint) (ruleset.Unit, []rules.Refusal) {
	return rules.Compile(ruleset.IPv4, testNode(), s, []*discoveryv1.EndpointSlice{slice(endpoints...)}, netip.AddrPort{})
}

func TestRefusedEndpoints(t *testing.T) {
	for addr, want := range map[string]string{
		"127.0.0.1":          "endpoint address 127.0.0.1 is loopback",
		"169.254.169.254":    "endpoint address 169.254.169.254 is link-local",
		"224.0.0.1":          "endpoint address 224.0.0.1 is multicast",
		"0.0.0.0":            "endpoint address 0.0.0.0 is unspecified",
		"255.255.255.255":    "endpoint address 255.255.255.255 is broadcast",
		"fd00::1":            `endpoint address "fd00::1" is no IPv4 address`,
		"example.com":        `endpoint address "example.com" is no IPv4 address`,
		"10.0.0.1; flush":    `endpoint address "10.0.0.1; flush" is no IPv4 address`,
		"::ffff:127.0.0.1":   "endpoint address 127.0.0.1 is loopback",
		"":                   `endpoint address "" is no IPv4 address`,
		"10.0.0.1\x00":       `endpoint address "10.0.0.1\x00" is no IPv4 address`,
		"10.0.0.1%eth0":      `endpoint address "10.0.0.1%eth0" is no IPv4 address`,
		"10.0.0.1/8":         `endpoint address "10.0.0.1/8" is no IPv4 address`,
		"10.244.1.9 . 8080 ": `endpoint address "10.244.1.9 . 8080 " is no IPv4 address`,
	} {
		t.Run(addr, func(t *testing.T) {
			unit, refused := compile(service(), endpoint(addr), endpoint(here))
			if len(refused) != 1 || refused[0] != (rules.Refusal{Slice: "web-1", Reason: rules.ReasonEndpointRefused, Message: want}) {
				t.Errorf("refused: %q", refused)
			}
			for _, choice := range unit.Chains[0].Choices() {
				if choice.Value.To != netip.MustParseAddrPort(here+":8080") {
					t.Errorf("traffic goes to %v", choice.Value.To)
				}
			}
		})
	}
	// Addresses with leading zeros are of older objects.
	if unit, refused := compile(service(), endpoint("010.244.001.002")); len(refused) > 0 || unit.Chains[0].Choices()[0].Value.To.Addr().String() != here {
		t.Errorf("leading zeros: %v", refused)
	}
}

func TestRefusedExternalAddresses(t *testing.T) {
	s := service(func(s *corev1.Service) {
		s.Spec.ExternalIPs = []string{"127.0.0.1", "169.254.169.254", "nonsense", externalIP, externalIP, "2001:db8::1"}
		proxy := corev1.LoadBalancerIPModeProxy
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
			{IP: "224.0.0.1"}, {Hostname: "example.com"}, {IP: balancerIP}, {IP: "203.0.113.9", IPMode: &proxy},
		}
	})
	unit, refused := compile(s, endpoint(here))
	var got []string
	for _, r := range refused {
		got = append(got, r.Reason+": "+r.Message)
	}
	want := []string{
		"ServiceAddressRefused: external address 224.0.0.1 is multicast", "ServiceAddressRefused: external address 127.0.0.1 is loopback",
		"ServiceAddressRefused: external address 169.254.169.254 is link-local",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("refused %q, want %q", got, want)
	}
	var frontends []string
	for _, claim := range unit.Claims {
		frontends = append(frontends, fmt.Sprintf("%s:%d", claim.Frontend.Addr, claim.Frontend.Port))
	}
	if want := "[10.96.0.1:80 203.0.113.2:80 203.0.113.1:80 invalid IP:30080]"; fmt.Sprint(frontends) != want {
		t.Errorf("frontends %v, want %v", frontends, want)
	}
}

// TestHijack has Services that claim another's address.
func TestHijack(t *testing.T) {
	victim, attacker := service(), service(func(s *corev1.Service) {
		s.Name, s.Spec.ClusterIP, s.Spec.ClusterIPs = "attacker", "10.96.0.66", []string{"10.96.0.66"}
		s.Spec.ExternalIPs, s.Spec.Ports[0].NodePort = []string{clusterIP, balancerIP}, 30666
		s.Status = corev1.ServiceStatus{}
	})
	theirs := slice(endpoint(there))
	theirs.Labels = map[string]string{discoveryv1.LabelServiceName: "attacker"}
	for name, own := range map[string][]discoveryv1.Endpoint{"with endpoints": {endpoint(here)}, "without endpoints": nil} {
		t.Run(name, func(t *testing.T) {
			w := build(ruleset.IPv4, testNode(), []*corev1.Service{attacker, victim}, []*discoveryv1.EndpointSlice{theirs, slice(own...)})
			want := map[string]string{"with endpoints": here + ":8080", "without endpoints": "reject"}[name]
			if got := w.send(t, podToCluster); got != want {
				t.Errorf("the victim's cluster IP leads to %q", got)
			}
			if got := w.send(t, podToBalancer); strings.Contains(got, there) {
				t.Errorf("the victim's load balancer IP leads to %q", got)
			}
			if got := w.send(t, packet{from: here2, to: "10.96.0.66", port: 80}); got != there+":8080" {
				t.Errorf("the attacker's own cluster IP leads to %q", got)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	var many []discoveryv1.Endpoint
	for i := range 10_010 {
		many = append(many, endpoint(fmt.Sprintf("10.%d.%d.9", 100+i>>8, i&255)))
	}
	unit, refused := compile(service(), many...)
	if len(refused) != 1 || refused[0].Reason != rules.ReasonTooManyEndpoints || len(unit.Chains[0].Choices()) != 10_000 {
		t.Errorf("%d choices, refused %v", len(unit.Chains[0].Choices()), refused)
	}
	var list []string
	for i := range 3000 {
		list = append(list, fmt.Sprintf("11.%d.%d.0/24", i>>8, i&255))
	}
	_, refused = compile(service(ranges(list...)), endpoint(here))
	if len(refused) != 1 || refused[0].Reason != rules.ReasonTooManyRanges {
		t.Errorf("refused %v", refused)
	}
	bad := make([]discoveryv1.Endpoint, 1000)
	for i := range bad {
		bad[i] = endpoint(strings.Repeat("x", 10_000))
	}
	if _, refused = compile(service(), bad...); len(refused) != 10 || len(refused[0].Message) > 200 {
		t.Errorf("%d refusals, the first of %d bytes", len(refused), len(refused[0].Message))
	}
}

func TestServicesWithoutRules(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"headless":      func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} },
		"no cluster IP": func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil },
		"external name": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"other proxy":   func(s *corev1.Service) { s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": ""} },
		"other family":  func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "fd00::1", []string{"fd00::1"} },
		"loopback":      func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "127.0.0.1", []string{"127.0.0.1"} },
	} {
		t.Run(name, func(t *testing.T) {
			unit, refused := compile(service(change), endpoint(here))
			if len(unit.Chains)+len(unit.Claims)+len(unit.ClusterIPs)+len(unit.Sets)+len(refused) > 0 || unit.Owner.Name != "web" {
				t.Errorf("%+v, %v", unit, refused)
			}
		})
	}
}

func TestSlicesWithoutRules(t *testing.T) {
	nothing, number, sctp, bogus := "", int32(0), corev1.ProtocolSCTP, corev1.Protocol("tcp; flush ruleset")
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"headless":          func(s *discoveryv1.EndpointSlice) { s.Labels[corev1.IsHeadlessService] = "" },
		"other proxy":       func(s *discoveryv1.EndpointSlice) { s.Labels["service.kubernetes.io/service-proxy-name"] = "x" },
		"host names":        func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN },
		"no port number":    func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = nil },
		"port 0":            func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = &number },
		"no port name":      func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = nil },
		"another port name": func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = &nothing },
		"another protocol":  func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = &sctp },
		"no protocol":       func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = &bogus },
		"no addresses":      func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = nil },
	} {
		t.Run(name, func(t *testing.T) {
			s := slice(endpoint(here))
			change(s)
			w := build(ruleset.IPv4, testNode(), []*corev1.Service{service()}, []*discoveryv1.EndpointSlice{s})
			if got := w.send(t, podToCluster); got != "reject" {
				t.Errorf("got %q", got)
			}
		})
	}
}

func TestUnitDetails(t *testing.T) {
	s := service(externalLocal, sticky)
	s.Spec.Ports = append(s.Spec.Ports,
		corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53},
		corev1.ServicePort{Name: "web", Protocol: corev1.ProtocolTCP, Port: 9}, corev1.ServicePort{Name: "zero", Port: 0})
	two, hour := slice(endpoint(here), endpoint(there), endpoint(here2, conditions(false, true, true))), int32(3600)
	name, protocol, port := "dns", corev1.ProtocolUDP, int32(53)
	two.Ports = append(two.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &port})
	s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &hour}}
	unit, _ := rules.Compile(ruleset.IPv4, testNode(), s, []*discoveryv1.EndpointSlice{two}, netip.AddrPort{})
	if unit.HealthPort != 32000 || unit.LocalReady != 1 || len(unit.Hairpins) != 2 || unit.LacksExternal != 0 {
		t.Errorf("health port %d, local %d, hairpins %v", unit.HealthPort, unit.LocalReady, unit.Hairpins)
	}
	if len(unit.Datagrams) != 1 || len(unit.Datagrams[0].Serving) != 3 || len(unit.Datagrams[0].Frontends) != 3 {
		t.Errorf("datagrams %+v", unit.Datagrams)
	}
	// Two ports with two endpoints in use each.
	if len(unit.Sets) != 4 || unit.Sets[0].Timeout != time.Hour {
		t.Errorf("sets %+v", unit.Sets)
	}
	remote, _ := rules.Compile(ruleset.IPv4, testNode(), service(externalLocal, internalLocal),
		[]*discoveryv1.EndpointSlice{slice(endpoint(there))}, netip.AddrPort{})
	if remote.LacksExternal != 1 || remote.LacksInternal != 1 {
		t.Errorf("lacks %d, %d", remote.LacksInternal, remote.LacksExternal)
	}
}

func TestInstead(t *testing.T) {
	local := netip.MustParseAddrPort(nodeIP + ":6443")
	unit, _ := rules.Compile(ruleset.IPv4, testNode(), service(), []*discoveryv1.EndpointSlice{slice(endpoint(there))}, local)
	if got := unit.Chains[0].Choices(); len(got) != 1 || got[0].Value.To != local || unit.LocalReady != 1 {
		t.Errorf("choices %v", got)
	}
	six := service(func(s *corev1.Service) { s.Spec.ClusterIPs = []string{clusterIP, "fd00:96::1"} })
	unit, _ = rules.Compile(ruleset.IPv6, testNode(), six, nil, local)
	if len(unit.Chains) != 0 || len(unit.Claims) != 2 {
		t.Errorf("the other family: %+v", unit)
	}
}

func TestNodePortIPs(t *testing.T) {
	addrs := func(list ...string) (parsed []netip.Addr) {
		for _, a := range list {
			parsed = append(parsed, netip.MustParseAddr(a))
		}
		return parsed
	}
	present := addrs("127.0.0.1", "192.0.2.1", "10.1.1.1", "10.1.1.2", "2001:db8::1", "fe80::1%eth0")
	for name, c := range map[string]struct {
		selectors []string
		want      string
		all       bool
	}{
		"default":        {nil, "[192.0.2.1]", false},
		"primary":        {[]string{"primary"}, "[192.0.2.1]", false},
		"range":          {[]string{"10.1.0.0/16", "10.1.1.2/32"}, "[10.1.1.1 10.1.1.2]", false},
		"both":           {[]string{"primary", "10.1.1.2/32"}, "[10.1.1.2 192.0.2.1]", false},
		"loopback":       {[]string{"127.0.0.0/8"}, "[]", false},
		"everything":     {[]string{"0.0.0.0/0"}, "[]", true},
		"other family":   {[]string{"::/0"}, "[192.0.2.1]", false},
		"no address":     {[]string{"172.16.0.0/12"}, "[]", false},
		"not a selector": {[]string{"; flush ruleset"}, "[192.0.2.1]", false},
	} {
		t.Run(name, func(t *testing.T) {
			n := &rules.Node{IPs: addrs(nodeIP, "2001:db8::1"), Present: present, NodePortAddresses: c.selectors}
			if got, all := n.NodePortIPs(ruleset.IPv4); fmt.Sprint(got) != c.want || all != c.all {
				t.Errorf("got %v, %v", got, all)
			}
		})
	}
}

var (
	safeName    = regexp.MustCompile(`^[a-z]+-[a-z2-7]{20}$`)
	safeComment = regexp.MustCompile(`^[a-zA-Z0-9._/:?-]{0,90}$`)
)

// FuzzCompile looks for input that gets into what the kernel or nft interprets.
func FuzzCompile(f *testing.F) {
	f.Add("default", "web", "port", "10.96.0.1", "10.244.1.2", "10.0.0.0/8", "TCP", int32(80))
	f.Add("a\x00b", "x\"; flush ruleset #", "{}", "::1", "127.0.0.1", "0/0", "tcp", int32(-1))
	f.Fuzz(func(t *testing.T, namespace, name, port, cluster, address, sources, protocol string, number int32) {
		s := service(sticky, externalLocal, ranges(sources))
		s.Namespace, s.Name, s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.ExternalIPs = namespace, name, cluster, nil, []string{address}
		s.Spec.Ports = []corev1.ServicePort{{Name: port, Protocol: corev1.Protocol(protocol), Port: number, NodePort: number}}
		e, p := slice(endpoint(address), endpoint(here)), corev1.Protocol(protocol)
		e.Ports = []discoveryv1.EndpointPort{{Name: &port, Protocol: &p, Port: &number}}
		for _, family := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
			e.AddressType = discoveryv1.AddressType(family.String())
			unit, _ := rules.Compile(family, testNode(), s, []*discoveryv1.EndpointSlice{e}, netip.AddrPort{})
			for _, chain := range unit.Chains {
				if !safeName.MatchString(chain.Name) || !safeComment.MatchString(chain.Comment) {
					t.Errorf("chain %q with comment %q", chain.Name, chain.Comment)
				}
				for _, choice := range chain.Choices() {
					if to := choice.Value.To.Addr(); !family.Is(to) || to.IsLoopback() || to.IsMulticast() || to.IsUnspecified() {
						t.Errorf("traffic goes to %v", to)
					}
				}
			}
			for _, claim := range unit.Claims {
				if addr := claim.Frontend.Addr; addr.IsValid() && (!family.Is(addr) || addr.Zone() != "") || claim.Frontend.Port == 0 {
					t.Errorf("claim to %v", claim.Frontend)
				}
			}
		}
	})
}
