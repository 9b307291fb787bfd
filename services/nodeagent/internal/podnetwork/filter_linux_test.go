package podnetwork

import (
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// texts returns the texts of prefixes, in order.
func texts(prefixes []netip.Prefix) string {
	return strings.Trim(fmt.Sprint(prefixes), "[]")
}

// TestEnds: ranges that touch each other are one.
func TestEnds(t *testing.T) {
	for given, want := range map[string]string{
		"":                            "",
		"10.244.1.0/24":               "10.244.1.0 10.244.2.0 end",
		"10.244.1.0/24 10.244.2.0/24": "10.244.1.0 10.244.3.0 end",
		"10.244.1.0/24 10.244.2.0/25 10.9.0.0/16": "10.9.0.0 10.10.0.0 end 10.244.1.0 10.244.2.128 end",
		"fd01:0:0:1::/64 fd01:0:0:3::/64":         "fd01:0:0:1:: fd01:0:0:2:: end fd01:0:0:3:: fd01:0:0:4:: end",
	} {
		family := ruleset.IPv4
		if strings.Contains(given, ":") {
			family = ruleset.IPv6
		}
		var parts []string
		for _, key := range ends(ofFamily(prefixes(given), family)) {
			parts = append(parts, key.Addr.String())
			if key.Index == 1 {
				parts = append(parts, "end")
			}
		}
		if got := strings.Join(parts, " "); got != want {
			t.Errorf("%s: got %s, want %s", given, got, want)
		}
	}
}

func TestOfFamily(t *testing.T) {
	for _, tc := range []struct{ given, ipv4, ipv6 string }{
		{"", "", ""},
		{"10.244.1.0/24", "10.244.1.0/24", ""},
		{"10.244.1.0/24 10.244.0.0/24", "10.244.0.0/23", ""},
		{"10.244.1.0/24 10.244.2.0/24", "10.244.1.0/24 10.244.2.0/24", ""}, // neighbours, but no halves of one
		{"10.244.3.0/24 fd01:0:0:1::/64 10.244.2.0/24 10.244.0.0/24 fd01::/64 10.244.1.0/24", "10.244.0.0/22", "fd01::/63"},
		{"10.244.0.0/24 10.244.1.0/25", "10.244.0.0/24 10.244.1.0/25", ""},
		{"10.244.0.0/25 10.244.0.128/25 10.244.1.0/24 9.0.0.0/8", "9.0.0.0/8 10.244.0.0/23", ""},
	} {
		given := prefixes(tc.given)
		before := slices.Clone(given)
		if got := texts(ofFamily(given, ruleset.IPv4)); got != tc.ipv4 {
			t.Errorf("%s: got %s, want %s", tc.given, got, tc.ipv4)
		}
		if got := texts(ofFamily(given, ruleset.IPv6)); got != tc.ipv6 {
			t.Errorf("%s: got %s, want %s", tc.given, got, tc.ipv6)
		}
		if !slices.Equal(given, before) {
			t.Errorf("%s: the argument was changed", tc.given)
		}
	}
}

// TestOfFamilyHasTheSameAddresses: no address is lost, and none is added.
func TestOfFamilyHasTheSameAddresses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inside := map[int]bool{}
		var given []netip.Prefix
		for _, i := range rapid.SliceOfNDistinct(rapid.IntRange(0, 63), 0, 64, rapid.ID).Draw(t, "numbers") {
			inside[i] = true
			given = append(given, netip.MustParsePrefix(fmt.Sprintf("10.0.%d.0/24", i)))
		}
		merged := ofFamily(given, ruleset.IPv4)
		for i := range 64 {
			address := netip.AddrFrom4([4]byte{10, 0, byte(i), 77})
			count := 0
			for _, prefix := range merged {
				if prefix.Contains(address) {
					count++
				}
			}
			if inside[i] && count != 1 || !inside[i] && count != 0 {
				t.Fatalf("%s is in %d of %v", address, count, merged)
			}
		}
		if len(merged) > 32 {
			t.Fatalf("%d of 64 numbers need %v", len(inside), merged)
		}
	})
}

func TestAccepting(t *testing.T) {
	const want = "-A GARBOARD-FORWARD -s 10.244.0.0/16 -j ACCEPT\n-A GARBOARD-FORWARD -d 10.244.0.0/16 -j ACCEPT\n"
	if got := accepting(prefixes("10.244.0.0/16")); got != want {
		t.Errorf("got %s", got)
	}
}

// TestForwardPolicy: another program's policy to drop what is forwarded does not keep pods apart.
func TestForwardPolicy(t *testing.T) {
	a, b, podA, podB, nodes := pair(t)
	programs := []string{"iptables", "ip6tables"}
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(program + " is not installed")
		}
		a.run(program, "-P", "FORWARD", "DROP")
	}
	a.must(true, nodes, Auto)
	b.must(true, nodes, Auto)
	a.must(false, nodes, Auto)
	connected(podA, podB)
	reaches(podA, b.space, "10.0.0.2", "10.0.0.1")

	chain := a.run("iptables", "-S", forwardChain)
	for _, damage := range [][]string{{"-F", forwardChain}, {"-D", "FORWARD", "-j", forwardChain}, {"-D", forwardChain, "1"}} {
		for _, program := range programs {
			a.run(program, damage...)
		}
		a.must(true, nodes, Auto)
		a.must(false, nodes, Auto)
		connected(podA, podB)
		if again := a.run("iptables", "-S", forwardChain); again != chain {
			t.Errorf("after %v the chain is\n%s", damage, again)
		}
	}

	// The rules follow the Nodes while the policy is another one, too.
	a.run("iptables", "-P", "FORWARD", "ACCEPT")
	more := append(slices.Clone(nodes), node("c", 0, "10.0.0.3", "10.244.9.0/24"))
	a.must(true, more, Auto)
	a.must(false, more, Auto)
	if chain := a.run("iptables", "-S", forwardChain); !strings.Contains(chain, "-d 10.244.9.0/24 -j ACCEPT") {
		t.Errorf("the chain is\n%s", chain)
	}
	a.run("iptables", "-P", "FORWARD", "DROP")
	a.do(func() error { return a.kernel.remove(t.Context(), DefaultBridge) })
	if rules := a.run("iptables", "-S"); strings.Contains(rules, forwardChain) {
		t.Errorf("left: %s", rules)
	}
	if seen, err := ask(podA, podB, "10.244.2.7", noAnswerTimeout); err == nil {
		t.Errorf("the policy is gone: seen from %s", seen)
	}
}
