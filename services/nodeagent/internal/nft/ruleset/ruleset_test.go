package ruleset_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

func TestFamily(t *testing.T) {
	for _, c := range []struct {
		addr string
		want ruleset.Family
		name string
	}{
		{"10.0.0.1", ruleset.IPv4, "IPv4"},
		{"fd00::1", ruleset.IPv6, "IPv6"},
		{"::ffff:10.0.0.1", ruleset.IPv6, "IPv6"},
	} {
		addr := netip.MustParseAddr(c.addr)
		if got := ruleset.FamilyOf(addr); got != c.want || got.String() != c.name || !got.Is(addr) {
			t.Errorf("FamilyOf(%s) = %s", addr, got)
		}
	}
	if ruleset.IPv4.Is(netip.Addr{}) || ruleset.IPv6.Is(netip.Addr{}) || ruleset.IPv4.Is(netip.MustParseAddr("::1")) {
		t.Error("an address that is none of the family is taken for one")
	}
	for family, want := range map[ruleset.Family]string{ruleset.IPv4: "127.0.0.0/8", ruleset.IPv6: "::1/128"} {
		if got := family.Loopback(); got.Masked() != netip.MustParsePrefix(want) {
			t.Errorf("%s: loopback is %s", family, got)
		}
	}
}

func TestParseProtocol(t *testing.T) {
	for name, want := range map[corev1.Protocol]string{
		corev1.ProtocolTCP: "tcp", corev1.ProtocolUDP: "udp", corev1.ProtocolSCTP: "sctp", "": "tcp",
	} {
		if got, ok := ruleset.ParseProtocol(name); !ok || got.String() != want {
			t.Errorf("ParseProtocol(%q) = %s, %v", name, got, ok)
		}
	}
	for _, name := range []corev1.Protocol{"tcp", "ICMP", "TCP; flush ruleset", " "} {
		if got, ok := ruleset.ParseProtocol(name); ok {
			t.Errorf("ParseProtocol(%q) = %s", name, got)
		}
	}
}

func endpoints(addrs ...string) []netip.AddrPort {
	var found []netip.AddrPort
	for _, addr := range addrs {
		found = append(found, netip.MustParseAddrPort(addr))
	}
	return found
}

func TestExpressionText(t *testing.T) {
	prefix, prefix6 := netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")
	for _, c := range []struct {
		expression ruleset.Expression
		ip, ip6    string
	}{
		{ruleset.New{}, "ct state new", "ct state new"},
		{ruleset.Translated{}, "ct status dnat", "ct status dnat"},
		{ruleset.Marked{}, "meta mark and 0x4000 != 0", "meta mark and 0x4000 != 0"},
		{ruleset.Within{Prefix: prefix}, "ip daddr 10.0.0.0/8", ""},
		{ruleset.Within{Prefix: prefix, Source: true}, "ip saddr 10.0.0.0/8", ""},
		{ruleset.Within{Prefix: prefix6, Source: true, Not: true}, "", "ip6 saddr != fd00::/8"},
		{ruleset.From{Interface: "cni0"}, `iifname "cni0"`, `iifname "cni0"`},
		{ruleset.From{Interface: "cni0", Not: true}, `iifname != "cni0"`, `iifname != "cni0"`},
		{ruleset.Local{}, "fib daddr type local", "fib daddr type local"},
		{ruleset.Local{Source: true}, "fib saddr type local", "fib saddr type local"},
		{ruleset.Member{Set: "s", Kind: ruleset.Addresses}, "ip daddr @s", "ip6 daddr @s"},
		{ruleset.Member{Set: "s", Source: true}, "ip saddr @s", "ip6 saddr @s"},
		{
			ruleset.Member{Set: "s", Kind: ruleset.Connections},
			"ip saddr . ip daddr . meta l4proto . th dport @s", "ip6 saddr . ip6 daddr . meta l4proto . th dport @s",
		},
		{ruleset.Over{Protocol: ruleset.UDP}, "meta l4proto udp", "meta l4proto udp"},
		{ruleset.SetMark{}, "meta mark set meta mark or 0x4000", "meta mark set meta mark or 0x4000"},
		{ruleset.ClearMark{}, "meta mark set meta mark and 0xffffbfff", "meta mark set meta mark and 0xffffbfff"},
		{ruleset.Masquerade{}, "masquerade fully-random", "masquerade fully-random"},
		{ruleset.Reject{}, "reject", "reject"},
		{
			ruleset.Lookup{Map: "m", Kind: ruleset.Services},
			"ip daddr . meta l4proto . th dport vmap @m", "ip6 daddr . meta l4proto . th dport vmap @m",
		},
		{ruleset.Lookup{Map: "m", Kind: ruleset.Ports}, "meta l4proto . th dport vmap @m", "meta l4proto . th dport vmap @m"},
		{ruleset.Remember{Set: "s"}, "update @s { ip saddr }", "update @s { ip6 saddr }"},
		{ruleset.Translate{To: endpoints("10.0.0.1:80")}, "dnat to 10.0.0.1:80", ""},
		{ruleset.Translate{To: endpoints("[fd00::1]:80")}, "", "dnat to [fd00::1]:80"},
		{
			ruleset.Translate{To: endpoints("10.0.0.1:80", "10.0.0.2:80"), ID: 0x100000002},
			"dnat ip addr . port to 0x1 . 0x2 . numgen random mod 2 map @endpoints-2", "",
		},
		{
			ruleset.Spread{Chains: []string{"a", "b"}},
			"numgen random mod 2 vmap { 0 : goto a, 1 : goto b }", "numgen random mod 2 vmap { 0 : goto a, 1 : goto b }",
		},
		{ruleset.Verdict{Action: ruleset.Drop}, "drop", "drop"},
		{ruleset.Verdict{Action: ruleset.Return}, "return", "return"},
		{ruleset.Verdict{Action: ruleset.Jump, Chain: "c"}, "jump c", "jump c"},
		{ruleset.GotoChain("c"), "goto c", "goto c"},
		{ruleset.Verdict{}, "", ""},
	} {
		for family, want := range map[ruleset.Family]string{ruleset.IPv4: c.ip, ruleset.IPv6: c.ip6} {
			if want == "" {
				continue
			}
			if got := c.expression.Text(family); got != want {
				t.Errorf("%#v: got %q, want %q", c.expression, got, want)
			}
		}
	}
	rule := ruleset.Rule{ruleset.New{}, ruleset.Verdict{Action: ruleset.Drop}}
	if got := rule.Text(ruleset.IPv4); got != "ct state new drop" {
		t.Errorf("rule: %q", got)
	}
}

func TestSets(t *testing.T) {
	for _, c := range []struct {
		set     ruleset.Set
		key     ruleset.Key
		ip, ip6 string
		text    string
	}{
		{ruleset.Set{Kind: ruleset.Addresses}, ruleset.Key{Addr: netip.MustParseAddr("10.0.0.1")}, "ipv4_addr", "ipv6_addr", "10.0.0.1"},
		{
			ruleset.Set{Kind: ruleset.Services, Verdicts: true},
			ruleset.Key{Addr: netip.MustParseAddr("10.0.0.1"), Protocol: ruleset.TCP, Port: 80},
			"ipv4_addr . inet_proto . inet_service : verdict", "ipv6_addr . inet_proto . inet_service : verdict", "10.0.0.1 . tcp . 80",
		},
		{
			ruleset.Set{Kind: ruleset.Ports, Verdicts: true}, ruleset.Key{Protocol: ruleset.SCTP, Port: 80},
			"inet_proto . inet_service : verdict", "inet_proto . inet_service : verdict", "sctp . 80",
		},
		{
			ruleset.Set{Kind: ruleset.Connections},
			ruleset.Key{Source: netip.MustParseAddr("10.0.0.2"), Addr: netip.MustParseAddr("10.0.0.1"), Protocol: ruleset.UDP, Port: 53},
			"ipv4_addr . ipv4_addr . inet_proto . inet_service", "ipv6_addr . ipv6_addr . inet_proto . inet_service",
			"10.0.0.2 . 10.0.0.1 . udp . 53",
		},
		{
			ruleset.Set{Kind: ruleset.Choices}, ruleset.Key{ID: 0xa0000000b, Index: 7},
			"mark . mark . mark : ipv4_addr . inet_service", "mark . mark . mark : ipv6_addr . inet_service", "0xa . 0xb . 7",
		},
	} {
		if ip, ip6 := c.set.Type(ruleset.IPv4), c.set.Type(ruleset.IPv6); ip != c.ip || ip6 != c.ip6 {
			t.Errorf("types %q and %q, want %q and %q", ip, ip6, c.ip, c.ip6)
		}
		if got := c.set.Kind.Text(c.key); got != c.text {
			t.Errorf("key %q, want %q", got, c.text)
		}
	}
	names := make(map[string]bool)
	for _, set := range ruleset.Shared() {
		if names[set.Name] || set.Timeout != 0 || set.Name == ruleset.NodePortIPs {
			t.Errorf("shared set %+v", set)
		}
		names[set.Name] = true
	}
	for id := range uint64(1000) {
		if name := ruleset.EndpointsMap(id << 3); !names[name] || !ruleset.HasEndpoints(name) {
			t.Fatalf("the map %s is no shared one", name)
		}
	}
	if ruleset.HasEndpoints(ruleset.ServiceIPs) {
		t.Error("service-ips is taken for a map of endpoints")
	}
}

func TestNames(t *testing.T) {
	form := regexp.MustCompile(`^service-[a-z2-7]{20}$`)
	seen := make(map[string][]string)
	for _, parts := range [][]string{
		{"default", "web"}, {"defaultweb"}, {"default\x00web"}, {"", "default", "web"}, {"default", "web", ""}, {"default web"},
		{`default", "web`}, {"x; flush ruleset"}, {strings.Repeat("x", 10_000)}, {"\xff"}, {"\ufffd"}, {},
	} {
		name := ruleset.Name("service", parts...)
		if !form.MatchString(name) || seen[name] != nil || ruleset.Name("service", parts...) != name {
			t.Errorf("Name(%q) = %q, which %q has, too", parts, name, seen[name])
		}
		seen[name] = append(parts, "-")
		if first := ruleset.ID(name); first == 0 || ruleset.ID(name) != first {
			t.Errorf("ID(%q) = %d", name, ruleset.ID(name))
		}
	}
}

func TestComment(t *testing.T) {
	for text, want := range map[string]string{
		"default/web:http":        "default/web:http",
		`"; flush ruleset #`:      "???flush?ruleset??",
		"a\nb\x00c":               "a?b?c",
		"ü":                       "??",
		strings.Repeat("x", 1000): strings.Repeat("x", 90),
	} {
		if got := ruleset.Comment(text); got != want {
			t.Errorf("Comment(%q) = %q", text, got)
		}
	}
}

func FuzzComment(f *testing.F) {
	safe := regexp.MustCompile(`^[a-zA-Z0-9._/:?-]{0,90}$`)
	f.Add("default/web")
	f.Add("\x00\"'\\{}")
	f.Fuzz(func(t *testing.T, text string) {
		if got := ruleset.Comment(text); !safe.MatchString(got) {
			t.Errorf("Comment(%q) = %q", text, got)
		}
	})
}

func sealed(rules ...ruleset.Rule) ruleset.Chain {
	return ruleset.Chain{Name: "c", Rules: rules, Comment: "x"}.Sealed(ruleset.IPv4)
}

func TestDigest(t *testing.T) {
	drop, reject := ruleset.Rule{ruleset.Verdict{Action: ruleset.Drop}}, ruleset.Rule{ruleset.Reject{}}
	two := ruleset.Rule{ruleset.Translate{To: endpoints("10.0.0.1:80", "10.0.0.2:80"), ID: 7}}
	others := ruleset.Rule{ruleset.Translate{To: endpoints("10.0.0.1:80", "10.0.0.3:80"), ID: 7}}
	more := ruleset.Rule{ruleset.Translate{To: endpoints("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"), ID: 7}}
	digests := make(map[string]bool)
	for _, chain := range []ruleset.Chain{sealed(), sealed(drop), sealed(reject), sealed(drop, reject), sealed(reject, drop), sealed(two), sealed(more)} {
		if digests[chain.Digest] {
			t.Errorf("two chains have the digest %s", chain.Digest)
		}
		digests[chain.Digest] = true
	}
	if sealed(two).Digest != sealed(others).Digest {
		t.Error("another endpoint changes the rules")
	}
	one, other := sealed(two), sealed(others)
	if got, want := len(one.Choices()), 2; got != want || slices.Equal(one.Choices(), other.Choices()) {
		t.Errorf("choices %v and %v", one.Choices(), other.Choices())
	}
}

func TestIntact(t *testing.T) {
	chain := sealed(ruleset.Rule{ruleset.Reject{}}, ruleset.Rule{ruleset.Verdict{Action: ruleset.Drop}})
	based := chain
	based.Base = &ruleset.Base{Type: "nat", Hook: ruleset.Output, Priority: -100}
	tags := []string{chain.Tag(0), chain.Tag(1)}
	for name, c := range map[string]struct {
		chain  ruleset.Chain
		actual ruleset.ActualChain
		want   bool
	}{
		"same":           {chain, ruleset.ActualChain{Tags: tags}, true},
		"rule missing":   {chain, ruleset.ActualChain{Tags: tags[:1]}, false},
		"rule added":     {chain, ruleset.ActualChain{Tags: append(slices.Clone(tags), "x")}, false},
		"rule replaced":  {chain, ruleset.ActualChain{Tags: []string{tags[0], ""}}, false},
		"other order":    {chain, ruleset.ActualChain{Tags: []string{tags[1], tags[0]}}, false},
		"at a hook":      {chain, ruleset.ActualChain{Base: based.Base, Tags: tags}, false},
		"same hook":      {based, ruleset.ActualChain{Base: &ruleset.Base{Type: "nat", Hook: ruleset.Output, Priority: -100}, Tags: tags}, true},
		"no hook":        {based, ruleset.ActualChain{Tags: tags}, false},
		"other priority": {based, ruleset.ActualChain{Base: &ruleset.Base{Type: "nat", Hook: ruleset.Output}, Tags: tags}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.chain.Intact(c.actual); got != c.want {
				t.Errorf("Intact = %v", got)
			}
		})
	}
}

func TestChangeOfElements(t *testing.T) {
	slot := ruleset.Slot{Set: "s", Key: ruleset.Key{Port: 1}}
	a, b := ruleset.Value{Verdict: ruleset.GotoChain("a")}, ruleset.Value{Verdict: ruleset.GotoChain("b")}
	add := func(v ruleset.Value) ruleset.Delta { return ruleset.Delta{Has: true, Is: v} }
	remove := func(v ruleset.Value) ruleset.Delta { return ruleset.Delta{Had: true, Was: v} }
	replace := ruleset.Delta{Had: true, Was: a, Has: true, Is: b}
	for name, c := range map[string]struct {
		deltas []ruleset.Delta
		want   map[ruleset.Slot]ruleset.Delta
	}{
		"added":                     {[]ruleset.Delta{add(a)}, map[ruleset.Slot]ruleset.Delta{slot: add(a)}},
		"added and removed":         {[]ruleset.Delta{add(a), remove(a)}, map[ruleset.Slot]ruleset.Delta{}},
		"removed and added":         {[]ruleset.Delta{remove(a), add(a)}, map[ruleset.Slot]ruleset.Delta{}},
		"removed and added another": {[]ruleset.Delta{remove(a), add(b)}, map[ruleset.Slot]ruleset.Delta{slot: replace}},
		"replaced and removed":      {[]ruleset.Delta{replace, remove(b)}, map[ruleset.Slot]ruleset.Delta{slot: remove(a)}},
		"added and replaced":        {[]ruleset.Delta{add(a), replace}, map[ruleset.Slot]ruleset.Delta{slot: add(b)}},
		"nothing":                   {[]ruleset.Delta{{Had: true, Was: a, Has: true, Is: a}}, map[ruleset.Slot]ruleset.Delta{}},
	} {
		t.Run(name, func(t *testing.T) {
			var one, merged ruleset.Change
			for _, delta := range c.deltas {
				one.Element(slot, delta)
				var next ruleset.Change
				next.Element(slot, delta)
				merged.Merge(&next)
			}
			for _, got := range []ruleset.Change{one, merged} {
				if fmt.Sprint(got.Elements) != fmt.Sprint(c.want) || got.IsEmpty() != (len(c.want) == 0) {
					t.Errorf("got %v, want %v", got.Elements, c.want)
				}
			}
		})
	}
}

func TestChangeSize(t *testing.T) {
	var change ruleset.Change
	if !change.IsEmpty() || change.Size() != 0 {
		t.Errorf("the empty change has size %d", change.Size())
	}
	change.Merge(&ruleset.Change{
		Sets:   []ruleset.Set{{Name: "s", Timeout: time.Hour}},
		Chains: []ruleset.Chain{sealed(ruleset.Rule{ruleset.Spread{Chains: []string{"a", "b", "c"}}})},
		Empty:  []string{"e"}, DropSets: []string{"d"}, Rebase: []string{"r"},
	})
	if change.IsEmpty() || change.Size() != 8 || len(change.Rebase) != 1 {
		t.Errorf("size %d: %+v", change.Size(), change)
	}
	if rebuild := (ruleset.Change{Rebuild: true}); rebuild.IsEmpty() {
		t.Error("a rebuilding is taken for nothing")
	}
}

func TestHookNames(t *testing.T) {
	for hook, want := range map[ruleset.Hook]string{
		ruleset.Prerouting: "prerouting", ruleset.Input: "input", ruleset.Forward: "forward",
		ruleset.Output: "output", ruleset.Postrouting: "postrouting",
	} {
		if got := hook.String(); got != want {
			t.Errorf("hook %d is %q", hook, got)
		}
	}
}

func TestChoices(t *testing.T) {
	one := ruleset.Translate{To: endpoints("10.0.0.1:80")}
	two := ruleset.Translate{To: endpoints("10.0.0.1:80", "10.0.0.2:81"), ID: 300}
	if got := one.Choices(); got != nil {
		t.Errorf("an endpoint that is part of the rule has elements: %v", got)
	}
	for i, choice := range two.Choices() {
		key := ruleset.Key{ID: 300, Index: uint32(i)}
		if choice.Set != ruleset.EndpointsMap(300) || choice.Key != key || choice.Value.To != two.To[i] || choice.Value.Verdict != (ruleset.Verdict{}) {
			t.Errorf("choice %d is %+v", i, choice)
		}
	}
	chain := sealed(ruleset.Rule{ruleset.New{}, two}, ruleset.Rule{one}, ruleset.Rule{ruleset.Reject{}})
	if got := chain.Choices(); !slices.Equal(got, two.Choices()) {
		t.Errorf("the chain's choices are %v", got)
	}
}

// FuzzName looks for two Services whose chains have one name.
func FuzzName(f *testing.F) {
	form := regexp.MustCompile(`^service-[a-z2-7]{20}$`)
	f.Add("default", "web", "defaultweb", "")
	f.Add(`a" "b`, "c", "a", `b" "c`)
	f.Add("\xff", "", "\ufffd", "")
	f.Fuzz(func(t *testing.T, namespace, name, otherNamespace, otherName string) {
		one, other := ruleset.Name("service", namespace, name), ruleset.Name("service", otherNamespace, otherName)
		if !form.MatchString(one) || !form.MatchString(other) {
			t.Errorf("names %q and %q", one, other)
		}
		if equal := namespace == otherNamespace && name == otherName; (one == other) != equal {
			t.Errorf("%q/%q is %q and %q/%q is %q", namespace, name, one, otherNamespace, otherName, other)
		}
		if (ruleset.ID(one) == ruleset.ID(other)) != (one == other) {
			t.Errorf("IDs %d and %d of %q and %q", ruleset.ID(one), ruleset.ID(other), one, other)
		}
	})
}

func TestMergeKeepsOrder(t *testing.T) {
	var all ruleset.Change
	for _, name := range []string{"a", "b"} {
		all.Merge(&ruleset.Change{
			Sets: []ruleset.Set{{Name: name}}, Chains: []ruleset.Chain{{Name: name}}, Rebase: []string{name}, Empty: []string{name},
			DropSets: []string{name},
		})
	}
	want := []string{"a", "b"}
	if !slices.Equal(all.Rebase, want) || !slices.Equal(all.Empty, want) || !slices.Equal(all.DropSets, want) ||
		all.Sets[1].Name != "b" || all.Chains[1].Name != "b" || all.Rebuild {
		t.Errorf("merged: %+v", all)
	}
	all.Merge(&ruleset.Change{Rebuild: true})
	if !all.Rebuild || len(all.Sets) != 2 {
		t.Errorf("with a rebuilding: %+v", all)
	}
}

// TestRanges: a set of ranges, its two ends, and the packets that are not in it.
func TestRanges(t *testing.T) {
	set := ruleset.Set{Name: ruleset.PodRanges, Kind: ruleset.Ranges}
	if got := set.Type(ruleset.IPv4) + " " + set.Type(ruleset.IPv6); got != "ipv4_addr ipv6_addr" {
		t.Errorf("the types are %s", got)
	}
	outside := ruleset.Member{Set: set.Name, Kind: set.Kind, Not: true}
	if got := outside.Text(ruleset.IPv6); got != "ip6 daddr != @pods" {
		t.Errorf("got %s", got)
	}
	address := netip.MustParseAddr("10.0.0.0")
	begin, end := set.Kind.Text(ruleset.Key{Addr: address}), set.Kind.Text(ruleset.Key{Addr: address, Index: 1})
	if begin == end {
		t.Errorf("both ends are %s", begin)
	}
}
