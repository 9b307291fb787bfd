package nft_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/nft"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/ledger"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

const table = "gb-test"

// connect returns a connection to the rules of a network namespace of the test's own. The thread is
// not used again afterwards.
func connect(tb testing.TB) *nft.Conn {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("a network namespace needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		tb.Skipf("a network namespace is not possible here: %v", err)
	}
	conn, err := nft.Open()
	if err != nil {
		tb.Skipf("nftables is not possible here: %v", err)
	}
	tb.Cleanup(func() {
		if err := conn.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return conn
}

func node() *rules.Node {
	return &rules.Node{
		Name: "n1", IPs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
		PodCIDRs:     []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:1::/64")},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:96::/108")},
	}
}

func addr(f ruleset.Family, n int) netip.Addr {
	if f == ruleset.IPv4 {
		return netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)})
	}
	return netip.AddrFrom16([16]byte{0xfd, 14: byte(n >> 8), 15: byte(n)})
}

// unit returns a unit that uses every expression of a Service's rules.
func unit(f ruleset.Family, name string, number, endpoints int) *ruleset.Unit {
	var to []netip.AddrPort
	for i := range endpoints {
		to = append(to, netip.AddrPortFrom(addr(f, 256+i), 8080))
	}
	chain := func(prefix string, list ...ruleset.Rule) ruleset.Chain {
		return ruleset.Chain{Name: ruleset.Name(prefix, name), Rules: list, Comment: name}.Sealed(f)
	}
	set := ruleset.Set{Name: ruleset.Name("affinity", name), Kind: ruleset.Addresses, Timeout: 3 * time.Hour}
	over := ruleset.Over{Protocol: ruleset.TCP}
	service := chain("service", ruleset.Rule{over, ruleset.Translate{To: to, ID: ruleset.ID(name)}})
	endpoint := chain("endpoint", ruleset.Rule{ruleset.Remember{Set: set.Name}}, ruleset.Rule{over, ruleset.Translate{To: to[:1]}})
	local := chain("local", ruleset.Rule{ruleset.Member{Set: set.Name, Source: true}, ruleset.GotoChain(endpoint.Name)},
		ruleset.Rule{ruleset.Spread{Chains: []string{endpoint.Name, service.Name}}})
	external := chain("external", ruleset.Rule{ruleset.Local{Source: true}, ruleset.SetMark{}},
		ruleset.Rule{ruleset.From{Interface: "cni0"}, ruleset.GotoChain(local.Name)}, ruleset.Rule{ruleset.GotoChain(local.Name)})
	firewall := chain("firewall",
		ruleset.Rule{ruleset.Within{Prefix: netip.PrefixFrom(addr(f, 0), 20).Masked(), Source: true}, ruleset.Verdict{Action: ruleset.Return}},
		ruleset.Rule{ruleset.Verdict{Action: ruleset.Drop}})
	front := func(port uint16) ruleset.Frontend {
		return ruleset.Frontend{Addr: addr(f, number), Protocol: ruleset.TCP, Port: port}
	}
	return &ruleset.Unit{
		Owner: types.NamespacedName{Namespace: "default", Name: name}, Sets: []ruleset.Set{set},
		Chains:     []ruleset.Chain{endpoint, service, local, external, firewall},
		ClusterIPs: []netip.Addr{addr(f, number)},
		Hairpins:   []ruleset.Key{{Source: to[0].Addr(), Addr: to[0].Addr(), Protocol: ruleset.TCP, Port: 8080}},
		Claims: []ruleset.Claim{
			{Frontend: front(80), Dispatch: ruleset.GotoChain(service.Name)},
			{Frontend: front(81), Absent: ruleset.Verdict{Action: ruleset.Drop}},
			{Frontend: front(82), Dispatch: ruleset.GotoChain(external.Name), Firewall: ruleset.GotoChain(firewall.Name)},
			{Frontend: ruleset.Frontend{Protocol: ruleset.TCP, Port: uint16(30000 + number)}, Absent: ruleset.GotoChain("refuse")},
		},
	}
}

func apply(tb testing.TB, conn *nft.Conn, f ruleset.Family, changes ...*ruleset.Change) {
	tb.Helper()
	for _, change := range changes {
		if err := conn.Apply(f, table, change); err != nil {
			tb.Fatalf("Apply: %v", err)
		}
	}
}

func repairs(tb testing.TB, conn *nft.Conn, l *ledger.Ledger, f ruleset.Family) []*ruleset.Change {
	tb.Helper()
	actual, err := conn.Read(f, table)
	if err != nil {
		tb.Fatalf("Read: %v", err)
	}
	return l.Repair(actual)
}

func TestKernelHasWhatWasWritten(t *testing.T) {
	for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		t.Run(f.String(), func(t *testing.T) {
			conn := connect(t)
			l := ledger.New()
			l.SetSkeleton(rules.Skeleton(f, node()))
			l.Put(unit(f, "one", 1, 1))
			apply(t, conn, f, repairs(t, conn, l, f)...)
			apply(t, conn, f, l.Put(unit(f, "two", 2, 900)))
			if left := repairs(t, conn, l, f); len(left) != 0 {
				t.Fatalf("after writing, %d changes are left, the first %+v", len(left), left[0])
			}
			// A change of the endpoints, a Service that goes, and other node ports.
			apply(t, conn, f, l.Put(unit(f, "one", 1, 3)), l.Remove(types.NamespacedName{Namespace: "default", Name: "two"}))
			everywhere := node()
			everywhere.NodePortAddresses = []string{"0.0.0.0/0", "::/0"}
			apply(t, conn, f, l.SetSkeleton(rules.Skeleton(f, everywhere)))
			for _, left := range repairs(t, conn, l, f) {
				// Only emptied chains stay, until they are deleted.
				if err := conn.DeleteChains(f, table, left.Empty); err != nil || len(left.Empty) == 0 {
					t.Fatalf("left: %+v, deleting its chains: %v", left, err)
				}
			}
			if left := repairs(t, conn, l, f); len(left) != 0 {
				t.Fatalf("after deleting chains, %+v is left", left[0])
			}
			if err := conn.DeleteTable(f, table); err != nil {
				t.Fatalf("DeleteTable: %v", err)
			}
			if actual, err := conn.Read(f, table); err != nil || actual.Exists {
				t.Fatalf("after DeleteTable: %v, %v", actual, err)
			}
		})
	}
}

// TestForeignChanges has each kind of damage, done with the program nft, and expects that it is
// noticed and repaired.
func TestForeignChanges(t *testing.T) {
	binary := program(t)
	name := func(prefix string) string { return ruleset.Name(prefix, "one") }
	for damage, command := range map[string]string{
		"rule added":        "add rule ip gb-test services drop",
		"rule inserted":     "insert rule ip gb-test nat-prerouting accept",
		"chain flushed":     "flush chain ip gb-test " + name("service"),
		"chain added":       "add chain ip gb-test mine { type filter hook input priority 0; policy drop; }",
		"element deleted":   "delete element ip gb-test service-ips { 10.1.0.1 . tcp . 80 }",
		"element added":     "add element ip gb-test absent-ips { 10.9.9.9 . udp . 53 : drop }",
		"foreign verdict":   "add element ip gb-test absent-ips { 10.9.9.9 . udp . 53 : accept }",
		"cluster IP added":  "add element ip gb-test cluster-ips { 8.8.8.8 }",
		"map flushed":       "flush map ip gb-test service-ips",
		"set added":         "add set ip gb-test mine { type ipv4_addr; }",
		"set of other form": "delete table ip gb-test; add table ip gb-test; add set ip gb-test cluster-ips { type inet_service; }",
		"chain of ours at another hook": "delete chain ip gb-test before-output; " +
			"add chain ip gb-test before-output { type filter hook output priority 7; }",
		"table deleted": "delete table ip gb-test",
	} {
		t.Run(damage, func(t *testing.T) {
			conn := connect(t)
			l := ledger.New()
			l.SetSkeleton(rules.Skeleton(ruleset.IPv4, node()))
			l.Put(unit(ruleset.IPv4, "one", 1, 2))
			apply(t, conn, ruleset.IPv4, repairs(t, conn, l, ruleset.IPv4)...)
			if err := conn.MarkSeen(); err != nil {
				t.Fatal(err)
			}
			apply(t, conn, ruleset.IPv4, l.Put(unit(ruleset.IPv4, "two", 2, 2)))
			if unseen, err := conn.Unseen(); unseen || err != nil {
				t.Fatalf("before the damage: Unseen = %v, %v", unseen, err)
			}
			run(t, binary, command)
			if unseen, err := conn.Unseen(); !unseen || err != nil {
				t.Fatalf("after the damage: Unseen = %v, %v", unseen, err)
			}
			found := repairs(t, conn, l, ruleset.IPv4)
			if len(found) == 0 {
				t.Fatal("the damage was not found")
			}
			apply(t, conn, ruleset.IPv4, found...)
			for _, left := range repairs(t, conn, l, ruleset.IPv4) {
				if err := conn.DeleteChains(ruleset.IPv4, table, left.Empty); err != nil || len(left.Empty) == 0 {
					t.Fatalf("not repaired: %+v, %v", left, err)
				}
			}
			if left := repairs(t, conn, l, ruleset.IPv4); len(left) != 0 {
				t.Fatalf("not repaired: %+v", left[0])
			}
		})
	}
}

func TestFailedTransactionChangesNothing(t *testing.T) {
	conn := connect(t)
	l := ledger.New()
	l.SetSkeleton(rules.Skeleton(ruleset.IPv4, node()))
	l.Put(unit(ruleset.IPv4, "one", 1, 2))
	apply(t, conn, ruleset.IPv4, repairs(t, conn, l, ruleset.IPv4)...)
	bad := l.Put(unit(ruleset.IPv4, "two", 2, 2))
	bad.DropSets = append(bad.DropSets, "no-such-set")
	if err := conn.Apply(ruleset.IPv4, table, bad); err == nil {
		t.Fatal("a change with a set that does not exist was applied")
	}
	l.Remove(types.NamespacedName{Namespace: "default", Name: "two"})
	if left := repairs(t, conn, l, ruleset.IPv4); len(left) != 0 {
		t.Fatalf("the failed transaction left %+v", left[0])
	}
	if err := conn.DeleteChains(ruleset.IPv4, table, []string{"services"}); err == nil {
		t.Fatal("a chain in use was deleted")
	}
}

func program(t *testing.T) string {
	t.Helper()
	binary, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("there is no nft program to compare with")
	}
	return binary
}

// run starts nft on the locked thread, and so in its network namespace.
func run(t *testing.T, binary string, script string) string {
	t.Helper()
	command := exec.Command(binary, "-f", "-")
	command.Stdin = strings.NewReader(script)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	}
	return string(out)
}

var counters = regexp.MustCompile(`# handle \d+|comment "[^"]*"|\t+|size 65535|flags [a-z,]+|timeout \S+`)

// TestEncodingEqualsNft loads the same rules by the program nft, from their text form, and compares
// what nft lists of both.
func TestEncodingEqualsNft(t *testing.T) {
	binary := program(t)
	for _, f := range []ruleset.Family{ruleset.IPv4, ruleset.IPv6} {
		t.Run(f.String(), func(t *testing.T) {
			conn := connect(t)
			l := ledger.New()
			l.SetSkeleton(rules.Skeleton(f, node()))
			l.Put(unit(f, "one", 1, 3))
			changes := repairs(t, conn, l, f)
			apply(t, conn, f, changes...)
			family := map[ruleset.Family]string{ruleset.IPv4: "ip", ruleset.IPv6: "ip6"}[f]
			run(t, binary, script(f, family, changes))
			ours, theirs := list(t, binary, family, table), list(t, binary, family, "other")
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Errorf("nft loads other rules than we write (-nft +ours):\n%s", diff)
			}
			if len(ours) < 60 {
				t.Errorf("nft lists only %d lines", len(ours))
			}
		})
	}
}

func list(t *testing.T, binary, family, name string) []string {
	t.Helper()
	out, err := exec.Command(binary, "list", "table", family, name).CombinedOutput()
	if err != nil {
		t.Fatalf("nft list: %v\n%s", err, out)
	}
	// nft breaks the elements of sets into lines, in no certain order.
	joined := regexp.MustCompile(`,\s+`).ReplaceAllString(string(out), ", ")
	var lines []string
	for line := range strings.Lines(counters.ReplaceAllString(joined, "")) {
		line = strings.Join(strings.Fields(line), " ")
		if rest, ok := strings.CutPrefix(line, "elements = { "); ok {
			parts := strings.Split(strings.TrimSuffix(rest, " }"), ", ")
			slices.Sort(parts)
			line = strings.Join(parts, ", ")
		}
		if !chosen(line) {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines[1:])
	return lines[1:]
}

// chosen reports whether a rule looks up an endpoint by a chain's ID. nft lists such a rule, but its
// language has no constants in that place. Packet tests show that the rule works.
func chosen(line string) bool {
	return strings.Contains(line, "numgen") && strings.Contains(line, "@endpoints-")
}

// script returns the changes in nft's language, for the table "other".
func script(f ruleset.Family, family string, changes []*ruleset.Change) string {
	var b, late strings.Builder
	in := family + " other"
	fmt.Fprintf(&b, "add table %s\n", in)
	kinds := make(map[string]ruleset.Kind)
	for _, change := range changes {
		for _, set := range change.Sets {
			kinds[set.Name] = set.Kind
			word, more := "set", ""
			if set.Verdicts || set.Kind == ruleset.Choices {
				word = "map"
			}
			if set.Timeout > 0 {
				more = fmt.Sprintf("flags dynamic,timeout; timeout %s;", set.Timeout)
			}
			fmt.Fprintf(&b, "add %s %s %s { type %s; %s }\n", word, in, set.Name, set.Type(f), more)
		}
		for _, chain := range change.Chains {
			base := ""
			if chain.Base != nil {
				base = fmt.Sprintf("{ type %s hook %s priority %d; }", chain.Base.Type, chain.Base.Hook, chain.Base.Priority)
			}
			fmt.Fprintf(&b, "add chain %s %s %s\n", in, chain.Name, base)
			for _, rule := range chain.Rules {
				if chosen(rule.Text(f)) {
					continue
				}
				fmt.Fprintf(&late, "add rule %s %s %s\n", in, chain.Name, rule.Text(f))
			}
		}
		for slot, delta := range change.Elements {
			value := ""
			switch {
			case delta.Is.Verdict.Action != ruleset.None:
				value = " : " + delta.Is.Verdict.Text(f)
			case delta.Is.To.IsValid():
				value = fmt.Sprintf(" : %s . %d", delta.Is.To.Addr(), delta.Is.To.Port())
			}
			fmt.Fprintf(&late, "add element %s %s { %s%s }\n", in, slot.Set, kinds[slot.Set].Text(slot.Key), value)
		}
	}
	return b.String() + late.String()
}
