package podnetwork

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// A chain of iptables accepts what is forwarded for pods, where another program's policy is to drop it.
const forwardChain = "GARBOARD-FORWARD"

// forward has iptables let through what is forwarded from and to pods, if another program (Docker, a firewall)
// made its policy to drop what it does not know. Rules in a table of our own could not: a packet must pass all
// tables. Without iptables there is no such policy. The rules are written only if they are not as they should
// be. Without own ranges they are removed.
func forward(ctx context.Context, family ruleset.Family, own, all []netip.Prefix) (changed bool, err error) {
	program := "iptables"
	if family == ruleset.IPv6 {
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
func accepting(all []netip.Prefix) string {
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
