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
func (f *filter) apply(ctx context.Context, plan *Plan, bridge string) (changed bool, err error) {
	for _, family := range []knftables.Family{knftables.IPv4Family, knftables.IPv6Family} {
		of := func(prefixes []netip.Prefix) []string {
			var texts []string
			for _, prefix := range prefixes {
				if prefix.Addr().Is4() == (family == knftables.IPv4Family) {
					texts = append(texts, prefix.String())
				}
			}
			slices.Sort(texts)
			return texts
		}
		own, all := of(plan.CIDRs), of(plan.Pods())
		state := fmt.Sprint(own, all, bridge)
		nft, err := tables(family)
		if err != nil {
			return changed, err
		}
		if f.written[family] == state && (len(own) == 0 || present(ctx, nft)) {
			if err := forward(ctx, family, own, all, false); err != nil {
				return changed, err
			}
			continue
		}
		if len(own) == 0 {
			err = drop(ctx, nft)
		} else {
			err = nft.Run(ctx, rules(nft, family, own, all))
		}
		if err != nil {
			return changed, fmt.Errorf("writing the rules that masquerade pods: %w", err)
		}
		if err := forward(ctx, family, own, all, true); err != nil {
			return changed, err
		}
		f.written[family], changed = state, true
	}
	return changed, nil
}

// tables returns the access to the table of a family.
func tables(family knftables.Family) (knftables.Interface, error) {
	nft, err := knftables.New(family, filterTable)
	if err != nil {
		return nil, fmt.Errorf("the program nft cannot be used, which Debian's package nftables has: %w", err)
	}
	return nft, nil
}

// present reports whether a table still has its chain.
func present(ctx context.Context, nft knftables.Interface) bool {
	chains, err := nft.List(ctx, "chains")
	return err == nil && slices.Contains(chains, "postrouting")
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
		tx.Add(&knftables.Set{Name: name, Type: map[string]string{"ip": "ipv4_addr", "ip6": "ipv6_addr"}[ip], Flags: []knftables.SetFlag{knftables.IntervalFlag}})
		for _, prefix := range prefixes {
			tx.Add(&knftables.Element{Set: name, Key: []string{prefix}})
		}
	}
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	tx.Add(&knftables.Table{Comment: knftables.PtrTo("pod network of the node agent")})
	set("own", own)
	set("pods", all)
	tx.Add(&knftables.Chain{
		Name: "postrouting", Type: knftables.PtrTo(knftables.NATType), Hook: knftables.PtrTo(knftables.PostroutingHook),
		Priority: knftables.PtrTo(knftables.SNATPriority),
	})
	tx.Add(&knftables.Rule{Chain: "postrouting", Rule: knftables.Concat(ip, "saddr @own", ip, "daddr !=", many, ip, "daddr != @pods", "masquerade fully-random")})
	return tx
}

// remove removes all rules.
func (f *filter) remove(ctx context.Context) error {
	var faults []error
	for _, family := range []knftables.Family{knftables.IPv4Family, knftables.IPv6Family} {
		if nft, err := tables(family); err == nil {
			faults = append(faults, drop(ctx, nft), forward(ctx, family, nil, nil, true))
		}
	}
	f.written = map[knftables.Family]string{}
	return errors.Join(faults...)
}

// forward has iptables let through what is forwarded from the node's pods and to any pods, if another program
// (Docker, a firewall) made its policy to drop what it does not know. Rules in a table of our own could not:
// a packet must pass all tables. Without iptables there is no such policy. Unless the ranges changed, the rules
// are written only if they are missing. Without own ranges they are removed.
func forward(ctx context.Context, family knftables.Family, own, all []string, changed bool) error {
	program := "iptables"
	if family == knftables.IPv6Family {
		program = "ip6tables"
	}
	if _, err := exec.LookPath(program); err != nil {
		return nil
	}
	run := func(args ...string) (string, error) {
		out, err := exec.CommandContext(ctx, program, append([]string{"--wait", "5"}, args...)...).CombinedOutput()
		return string(out), err
	}
	policy, err := run("-S", "FORWARD")
	if err != nil || !strings.HasPrefix(policy, "-P FORWARD DROP") && len(own) > 0 {
		return nil
	}
	jumps := strings.Contains(policy, "-j "+forwardChain)
	if !changed && jumps {
		return nil
	}
	if len(own) == 0 {
		_, _ = run("-D", "FORWARD", "-j", forwardChain)
		_, _ = run("-F", forwardChain)
		_, _ = run("-X", forwardChain)
		return nil
	}
	steps := [][]string{{"-F", forwardChain}}
	if _, err := run("-n", "-L", forwardChain); err != nil {
		steps = [][]string{{"-N", forwardChain}}
	}
	for _, prefix := range all {
		steps = append(steps, []string{"-A", forwardChain, "-s", prefix, "-j", "ACCEPT"}, []string{"-A", forwardChain, "-d", prefix, "-j", "ACCEPT"})
	}
	if !jumps {
		steps = append(steps, []string{"-I", "FORWARD", "-j", forwardChain})
	}
	for _, step := range steps {
		if out, err := run(step...); err != nil {
			return fmt.Errorf("running %s %s: %w: %s", program, strings.Join(step, " "), err, strings.TrimSpace(out))
		}
	}
	return nil
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
