package podnetwork

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// filterTable is the name of the tables that hold the rules, one of each IP family.
const filterTable = "garboard-pods"

// A chain of iptables accepts what is forwarded for pods, where another program's policy is to drop it.
const forwardChain = "GARBOARD-FORWARD"

// filter masquerades what pods send out of the plane, and lets packets for pods through.
type filter struct {
	// written is what was last written, by family.
	written map[knftables.Family]string
}

func newFilter() *filter { return &filter{written: map[knftables.Family]string{}} }

// apply writes the rules of a plan. It reports whether it wrote anything.
func (f *filter) apply(ctx context.Context, plan *Plan) (changed bool, err error) {
	for _, family := range []knftables.Family{knftables.IPv4Family, knftables.IPv6Family} {
		own, all := ofFamily(plan.CIDRs, family), ofFamily(plan.Pods(), family)
		state := fmt.Sprint(own, all)
		nft, err := tables(family)
		switch {
		case len(own) == 0 && (err != nil || f.written[family] == state):
			continue // A machine without IPv6 has nothing to remove.
		case err != nil:
			return changed, err
		case len(own) == 0:
			err = drop(ctx, nft)
		case f.written[family] != state || !present(ctx, nft, own, all):
			err = nft.Run(ctx, rules(nft, family, own, all))
		default:
			forwarded, err := forward(ctx, family, own, all)
			changed = changed || forwarded
			if err != nil {
				return changed, err
			}
			continue
		}
		if err != nil {
			return changed, fmt.Errorf("writing the rules that masquerade pods: %w", err)
		}
		changed = true
		if _, err := forward(ctx, family, own, all); err != nil {
			return changed, err
		}
		f.written[family] = state
	}
	return changed, nil
}

// ofFamily returns the prefixes of one IP family, as few as describe the same addresses. Since nodes have
// neighbouring CIDRs, they are much fewer than the nodes.
func ofFamily(prefixes []netip.Prefix, family knftables.Family) []string {
	var merged []netip.Prefix
	for _, prefix := range slices.SortedFunc(slices.Values(prefixes), netip.Prefix.Compare) {
		if prefix.Addr().Is4() != (family == knftables.IPv4Family) {
			continue
		}
		for len(merged) > 0 {
			last := merged[len(merged)-1]
			parent := netip.PrefixFrom(last.Addr(), last.Bits()-1).Masked()
			if last.Bits() != prefix.Bits() || parent.Addr() != last.Addr() || !parent.Contains(prefix.Addr()) {
				break
			}
			merged, prefix = merged[:len(merged)-1], parent
		}
		merged = append(merged, prefix)
	}
	var texts []string
	for _, prefix := range merged {
		texts = append(texts, prefix.String())
	}
	return texts
}

// tables returns the access to the table of a family.
func tables(family knftables.Family) (knftables.Interface, error) {
	nft, err := knftables.New(family, filterTable)
	if err != nil {
		return nil, fmt.Errorf("the program nft cannot be used, which Debian's package nftables has: %w", err)
	}
	return nft, nil
}

// present reports whether a table still has its rule and the elements of its sets.
func present(ctx context.Context, nft knftables.Interface, own, all []string) bool {
	found, err := nft.ListRules(ctx, "postrouting")
	if err != nil || len(found) != 1 {
		return false
	}
	for name, prefixes := range map[string][]string{"own": own, "pods": all} {
		if elements, err := nft.ListElements(ctx, "set", name); err != nil || len(elements) != len(prefixes) {
			return false
		}
	}
	return true
}

// drop removes a table, if there is one.
func drop(ctx context.Context, nft knftables.Interface) error {
	tx := nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	return nft.Run(ctx, tx)
}

// rules returns the transaction that writes the whole table anew.
func rules(nft knftables.Interface, family knftables.Family, own, all []string) *knftables.Transaction {
	tx, ip, many := nft.NewTransaction(), "ip", "224.0.0.0/4"
	if family == knftables.IPv6Family {
		ip, many = "ip6", "ff00::/8"
	}
	set := func(name string, prefixes []string) {
		tx.Add(&knftables.Set{
			Name: name, Type: map[string]string{"ip": "ipv4_addr", "ip6": "ipv6_addr"}[ip], Flags: []knftables.SetFlag{knftables.IntervalFlag},
		})
		for _, prefix := range prefixes {
			tx.Add(&knftables.Element{Set: name, Key: []string{prefix}})
		}
	}
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{Comment: new("pod network of the node agent")})
	set("own", own)
	set("pods", all)
	tx.Add(&knftables.Chain{
		Name: "postrouting", Type: knftables.PtrTo(knftables.NATType), Hook: knftables.PtrTo(knftables.PostroutingHook),
		Priority: knftables.PtrTo(knftables.SNATPriority),
	})
	tx.Add(&knftables.Rule{Chain: "postrouting", Rule: knftables.Concat(
		ip, "saddr @own", ip, "daddr !=", many, ip, "daddr != @pods", "masquerade fully-random",
	)})
	return tx
}

// remove removes all rules.
func (f *filter) remove(ctx context.Context) error {
	var faults []error
	for _, family := range []knftables.Family{knftables.IPv4Family, knftables.IPv6Family} {
		if nft, err := tables(family); err == nil {
			faults = append(faults, drop(ctx, nft))
		}
		_, err := forward(ctx, family, nil, nil)
		faults = append(faults, err)
	}
	f.written = map[knftables.Family]string{}
	return errors.Join(faults...)
}

// forward has iptables let through what is forwarded from and to pods, if another program (Docker, a firewall)
// made its policy to drop what it does not know. Rules in a table of our own could not: a packet must pass all
// tables. Without iptables there is no such policy. The rules are written only if they are not as they should
// be. Without own ranges they are removed.
func forward(ctx context.Context, family knftables.Family, own, all []string) (changed bool, err error) {
	program := "iptables"
	if family == knftables.IPv6Family {
		program = "ip6tables"
	}
	if _, err := exec.LookPath(program); err != nil {
		return false, nil
	}
	run := func(stdin, program string, args ...string) (string, error) {
		command := exec.CommandContext(ctx, program, append([]string{"--wait", "5"}, args...)...)
		command.Stdin = strings.NewReader(stdin)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	policy, err := run("", program, "-S", "FORWARD")
	if err != nil {
		return false, nil // A machine without the kernel's part of it has no such policy.
	}
	jump := "-A FORWARD -j " + forwardChain
	jumps := strings.Contains(policy, jump+"\n")
	if len(own) > 0 && !jumps && !strings.HasPrefix(policy, "-P FORWARD DROP") {
		return false, nil
	}
	chain, missing := run("", program, "-S", forwardChain)
	text := ":" + forwardChain + " - [0:0]\n" // It makes the chain, or empties it.
	switch {
	case len(own) == 0 && missing != nil:
		return false, nil
	case len(own) == 0:
		if jumps {
			text += "-D FORWARD -j " + forwardChain + "\n"
		}
		text += "-X " + forwardChain + "\n"
	default:
		accept := accepting(all)
		if jumps && missing == nil && chain == "-N "+forwardChain+"\n"+accept {
			return false, nil
		}
		text += accept
		if !jumps {
			text += "-I FORWARD -j " + forwardChain + "\n"
		}
	}
	if out, err := run("*filter\n"+text+"COMMIT\n", program+"-restore", "--noflush"); err != nil {
		return false, fmt.Errorf("having %s forward packets for pods: %w: %s", program, err, strings.TrimSpace(out))
	}
	return true, nil
}

// accepting returns the rules of the chain, in the form in which iptables lists them.
func accepting(all []string) string {
	var rules strings.Builder
	for _, prefix := range all {
		fmt.Fprintf(&rules, "-A %[1]s -s %[2]s -j ACCEPT\n-A %[1]s -d %[2]s -j ACCEPT\n", forwardChain, prefix)
	}
	return rules.String()
}

// forwarding has the kernel forward packets, and show what crosses the bridge to the rules of Services.
func (c *changes) forwarding(plan *Plan) error {
	wanted := map[string]bool{"/proc/sys/net/ipv4/ip_forward": true, "/proc/sys/net/bridge/bridge-nf-call-iptables": false}
	if slices.ContainsFunc(plan.CIDRs, func(cidr netip.Prefix) bool { return cidr.Addr().Is6() }) {
		wanted["/proc/sys/net/ipv6/conf/all/forwarding"], wanted["/proc/sys/net/bridge/bridge-nf-call-ip6tables"] = true, false
	}
	for path, required := range wanted {
		text, err := os.ReadFile(path)
		if err == nil && strings.TrimSpace(string(text)) == "1" {
			continue
		}
		if err == nil {
			err = os.WriteFile(path, []byte("1"), 0)
		}
		if err != nil && required {
			return fmt.Errorf("switching the forwarding of packets on: %w", err)
		}
		c.any = c.any || err == nil
	}
	return nil
}
