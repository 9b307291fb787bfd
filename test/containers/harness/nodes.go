package harness

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Nodes are network namespaces of this machine, each with a containerd, that share a link, as the machines of
// a cluster do. This machine is on the link, too, and is the nodes' router. The runtimes have no network
// configuration: node agents write it.
type Nodes struct {
	// Host is this machine's address on the link.
	Host netip.Addr
	// List are the nodes.
	List []*Node

	bridge string
	subnet netip.Prefix
}

// Node is one of Nodes.
type Node struct {
	*Containers
	// Name is the name of the node, of its namespace, and of this machine's end of its cable.
	Name string
	// Address is the node's address on the link.
	Address netip.Addr

	nodes *Nodes
}

// Programs that nodes need beyond those of Require.
var nodePrograms = []string{"ip", "nft", "nsenter"}

// podRange is the range of which the nodes of a plane get their pods' addresses by default. This machine has no route
// there.
const podRange = "10.244.0.0/16"

// StartNodes builds the images and starts a registry and a number of nodes, which end with the test. It calls
// Require first.
func StartNodes(t testing.TB, count int) *Nodes {
	t.Helper()
	Require(t)
	for _, program := range nodePrograms {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("nodes cannot run here: %s is not installed (apt-get install iproute2 nftables util-linux)", program)
		}
	}
	link, err := freeNetwork()
	if err != nil {
		t.Fatal(err)
	}
	sweepNodes(t)
	n := &Nodes{bridge: link.bridge, subnet: link.subnet, Host: link.subnet.Addr().Next()}
	if err := n.own(count); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
	defer cancel()
	t.Cleanup(func() { n.end(t) })
	if err := n.connect(ctx); err != nil {
		t.Fatalf("making the link of the nodes: %v", err)
	}
	first := (*Containers)(nil)
	for i := range count {
		node, err := n.node(ctx, i)
		if err != nil {
			t.Fatalf("making a node: %v", err)
		}
		node.Containers = startWith(t, inNamespace{name: node.Name, registry: net.JoinHostPort(n.Host.String(), "0"), like: first})
		first = node.Containers
		n.List = append(n.List, node)
	}
	return n
}

// connect makes the link and lets the nodes reach what this machine reaches.
func (n *Nodes) connect(ctx context.Context) error {
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("forwarding the packets of nodes: %w", err)
	}
	subnet := n.subnet.String()
	return run(ctx,
		"ip link add "+n.bridge+" type bridge",
		"ip addr add "+netip.PrefixFrom(n.Host, n.subnet.Bits()).String()+" dev "+n.bridge,
		"ip link set "+n.bridge+" up",
		"iptables -w 10 -t nat -I POSTROUTING -s "+subnet+" ! -d "+subnet+" -j MASQUERADE",
		"ip route replace unreachable "+podRange, // Some networks answer for every address.
		"iptables -w 10 -I FORWARD -i "+n.bridge+" -j ACCEPT",
		"iptables -w 10 -I FORWARD -o "+n.bridge+" -j ACCEPT",
	)
}

// node makes the namespace of a node and connects it to the link.
func (n *Nodes) node(ctx context.Context, i int) (*Node, error) {
	octets := n.subnet.Addr().As4()
	octets[3] = byte(11 + i)
	node := &Node{Name: fmt.Sprintf("%s-%d", n.bridge, i+1), Address: netip.AddrFrom4(octets), nodes: n}
	return node, run(ctx,
		"ip netns add "+node.Name,
		"ip link add "+node.Name+" type veth peer name eth0 netns "+node.Name,
		"ip link set "+node.Name+" master "+n.bridge+" up",
		"ip -n "+node.Name+" link set lo up",
		"ip -n "+node.Name+" addr add "+netip.PrefixFrom(node.Address, n.subnet.Bits()).String()+" dev eth0",
		"ip -n "+node.Name+" link set eth0 up",
		"ip -n "+node.Name+" route add default via "+n.Host.String(),
	)
}

// Cut takes a node off the link, and Mend connects it again.
func (n *Node) Cut(t testing.TB) { n.link(t, "down") }

// Mend connects a node that was Cut.
func (n *Node) Mend(t testing.TB) { n.link(t, "up") }

func (n *Node) link(t testing.TB, state string) {
	t.Helper()
	if err := run(t.Context(), "ip link set "+n.Name+" "+state); err != nil {
		t.Fatal(err)
	}
}

// BringNetwork gives the node's runtime a network configuration that is not the node agent's. A bridge of its own
// connects pods with the node alone.
func (n *Node) BringNetwork(t testing.TB) {
	t.Helper()
	link, err := freeNetwork()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.CNIDir(), "00-own.conflist"), []byte(link.conflist(n.dir)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// CNIDir returns the folder in which the node's runtime looks for CNI configurations.
func (n *Node) CNIDir() string { return filepath.Join(n.dir, "cni") }

// Command returns a command that runs on the node.
func (n *Node) Command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", within(n.Name, program, args...)...)
}

// within returns the arguments of nsenter for a program in a network namespace.
func within(namespace, program string, args ...string) []string {
	return append([]string{"--net=/var/run/netns/" + namespace, program}, args...)
}

// ownerPrefix is the beginning of the names of files that say which process a link belongs to.
const ownerPrefix = "garboard-nodes-"

func ownerFile(bridge string) string { return filepath.Join(os.TempDir(), ownerPrefix+bridge) }

// own notes whose the link is, for sweepNodes.
func (n *Nodes) own(count int) error {
	return os.WriteFile(ownerFile(n.bridge), fmt.Appendf(nil, "%d %s %d", os.Getpid(), n.subnet, count), 0o600)
}

// sweepNodes removes the links of test processes that were killed before they could.
func sweepNodes(t testing.TB) {
	old, err := filepath.Glob(ownerFile("*"))
	if err != nil {
		return
	}
	for _, file := range old {
		var pid, count int
		var subnet string
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(text), &pid, &subnet, &count); err != nil || alive(pid) {
			continue
		}
		n := &Nodes{bridge: strings.TrimPrefix(filepath.Base(file), ownerPrefix)}
		if n.subnet, err = netip.ParsePrefix(subnet); err != nil {
			continue
		}
		for i := range count {
			n.List = append(n.List, &Node{Name: fmt.Sprintf("%s-%d", n.bridge, i+1), nodes: n})
		}
		t.Logf("cleaning up after the killed test process %d: the link %s", pid, n.bridge)
		n.end(t)
	}
}

// end removes the link and the namespaces, with what runs there.
func (n *Nodes) end(t testing.TB) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
	defer cancel()
	for _, node := range n.List {
		out, err := exec.CommandContext(ctx, "ip", "netns", "pids", node.Name).Output()
		if err != nil {
			continue
		}
		for text := range strings.FieldsSeq(string(out)) {
			if pid, err := strconv.Atoi(text); err == nil {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
	subnet := n.subnet.String()
	commands := []string{
		"iptables -w 10 -t nat -D POSTROUTING -s " + subnet + " ! -d " + subnet + " -j MASQUERADE",
		"iptables -w 10 -D FORWARD -i " + n.bridge + " -j ACCEPT",
		"iptables -w 10 -D FORWARD -o " + n.bridge + " -j ACCEPT",
		"ip route delete unreachable " + podRange,
	}
	for _, node := range n.List {
		commands = append(commands, "ip netns delete "+node.Name)
	}
	for _, command := range append(commands, "ip link delete "+n.bridge) {
		if err := run(ctx, command); err != nil {
			t.Logf("removing the link of the nodes: %v", err)
		}
	}
	_ = os.Remove(ownerFile(n.bridge))
}

// run runs commands, whose arguments have no blanks, until one fails.
func run(ctx context.Context, commands ...string) error {
	for _, command := range commands {
		words := strings.Fields(command)
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}
