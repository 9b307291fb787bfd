package podnetwork

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// A connection within the lab takes less than a millisecond if it is possible. answerTimeout bounds those that
// are, and noAnswerTimeout those that are not.
const (
	answerTimeout   = 5 * time.Second
	noAnswerTimeout = 500 * time.Millisecond
)

// space is a network namespace that stands for a machine or a pod.
type space struct {
	t      *testing.T
	handle netns.NsHandle
}

// newSpace returns a namespace with its loopback interface on, which ends with the test.
func newSpace(t *testing.T) *space {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may make network namespaces")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("the program nft is not installed")
	}
	s := &space{t: t}
	thread(func() (err error) {
		s.handle, err = netns.New()
		return err
	}, func(err error) {
		if err != nil {
			t.Fatalf("making a network namespace: %v", err)
		}
	})
	t.Cleanup(func() { _ = s.handle.Close() })
	s.do(func() error {
		// Interfaces do not look for others with their address first, which would take seconds.
		return errors.Join(up("lo"), os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0))
	})
	return s
}

// thread runs f on a thread that ends with it, and tells the result.
func thread(f func() error, result func(error)) {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // It is not unlocked: the thread's namespace is not that of the others.
		ended <- f()
	}()
	result(<-ended)
}

// try runs f in the namespace.
func (s *space) try(f func() error) (err error) {
	thread(func() error {
		if err := netns.Set(s.handle); err != nil {
			return err
		}
		return f()
	}, func(result error) { err = result })
	return err
}

// do runs f in the namespace. It fails the test if f does.
func (s *space) do(f func() error) {
	s.t.Helper()
	if err := s.try(f); err != nil {
		s.t.Fatal(err)
	}
}

// run runs a program in the namespace, and returns what it wrote.
func (s *space) run(program string, args ...string) string {
	s.t.Helper()
	var out []byte
	s.do(func() (err error) {
		if out, err = exec.CommandContext(s.t.Context(), program, args...).CombinedOutput(); err != nil {
			err = fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, out)
		}
		return err
	})
	return string(out)
}

func up(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding %s: %w", name, err)
	}
	return netlink.LinkSetUp(link)
}

// address gives an interface of the namespace addresses, and switches it on.
func (s *space) address(name string, networks string) {
	s.t.Helper()
	s.do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("finding %s: %w", name, err)
		}
		for _, network := range prefixes(networks) {
			if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(network), Flags: unix.IFA_F_NODAD}); err != nil {
				return fmt.Errorf("giving %s the address %s: %w", name, network, err)
			}
		}
		return netlink.LinkSetUp(link)
	})
}

// gateway has the namespace send what it knows no other way for to gateways.
func (s *space) gateway(gateways string) {
	s.t.Helper()
	s.do(func() error {
		for gateway := range strings.FieldsSeq(gateways) {
			if err := netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)}); err != nil {
				return fmt.Errorf("adding the gateway %s: %w", gateway, err)
			}
		}
		return nil
	})
}

// cable connects an interface of one namespace with one of another.
func cable(from *space, name string, to *space, other string) {
	from.t.Helper()
	from.do(func() error {
		return netlink.LinkAdd(&netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: other, PeerNamespace: netlink.NsFd(to.handle),
		})
	})
}

// labNode is a node agent's machine.
type labNode struct {
	*space
	kernel  kernel
	name    string
	address netip.Addr
	pods    int
}

// newNode returns a machine without a cable.
func newNode(t *testing.T, name, address string) *labNode {
	t.Helper()
	return &labNode{space: newSpace(t), kernel: newKernel(), name: name, address: netip.MustParseAddr(address)}
}

// bring brings the node's network up to date, as the loop does, and reports whether anything changed.
func (n *labNode) bring(nodes []*corev1.Node, mode Mode) (changed bool, err error) {
	n.t.Helper()
	err = n.try(func() error {
		host, err := n.kernel.host(n.address, DefaultBridge)
		if err != nil {
			return err
		}
		plan := Decide(n.name, nodes, host, mode)
		if len(plan.Refused) > 0 {
			n.t.Logf("refused: %v", plan.Refused)
		}
		changed, err = n.kernel.apply(n.t.Context(), &plan, host, DefaultBridge)
		return err
	})
	return changed, err
}

// must brings the network up to date, which is to change something or not.
func (n *labNode) must(change bool, nodes []*corev1.Node, mode Mode) {
	n.t.Helper()
	if changed, err := n.bring(nodes, mode); err != nil || changed != change {
		n.t.Fatalf("%s: changed: %v, want %v; %v", n.name, changed, change, err)
	}
}

// pod connects a pod to the node's bridge, as the CNI plugins do. The networks are its addresses; the bridge has
// the first address of each.
func (n *labNode) pod(networks string) *space {
	n.t.Helper()
	pod, port := newSpace(n.t), fmt.Sprint("pod", n.pods)
	cable(n.space, port, pod, "eth0")
	if n.pods == 0 {
		n.do(func() error {
			return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: DefaultBridge}})
		})
	}
	var first, gateways []string
	for _, network := range prefixes(networks) {
		gateway := network.Masked().Addr().Next()
		first, gateways = append(first, netip.PrefixFrom(gateway, network.Bits()).String()), append(gateways, gateway.String())
	}
	if n.pods == 0 {
		n.space.address(DefaultBridge, strings.Join(first, " "))
	}
	n.do(func() error {
		bridge, err := netlink.LinkByName(DefaultBridge)
		if err != nil {
			return err
		}
		link, err := netlink.LinkByName(port)
		if err != nil {
			return err
		}
		return errors.Join(netlink.LinkSetMaster(link, bridge), netlink.LinkSetUp(link))
	})
	pod.address("eth0", networks)
	pod.gateway(strings.Join(gateways, " "))
	n.pods++
	return pod
}

// ask connects from one namespace to an address of another. It returns the address from which the other saw
// the connection come.
func ask(from, to *space, address string, within time.Duration) (seen string, err error) {
	from.t.Helper()
	var listener net.Listener
	to.do(func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(to.t.Context(), "tcp", net.JoinHostPort(address, "0"))
		return err
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		peer, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		_, _ = io.WriteString(conn, peer)
		_ = conn.Close()
	}()
	err = from.try(func() error {
		conn, err := (&net.Dialer{Timeout: within}).DialContext(from.t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			return err
		}
		err = conn.SetDeadline(time.Now().Add(within))
		if err == nil {
			var text []byte
			text, err = io.ReadAll(conn)
			seen = string(text)
		}
		return errors.Join(err, conn.Close())
	})
	_ = listener.Close()
	<-ended
	return seen, err
}

// reaches requires that a connection is possible and comes from an address.
func reaches(from, to *space, address, want string) {
	from.t.Helper()
	if seen, err := ask(from, to, address, answerTimeout); err != nil || seen != want {
		from.t.Errorf("connecting to %s: seen from %q, want %q: %v", address, seen, want, err)
	}
}

// traces returns what is left of the package in the kernel.
func (n *labNode) traces() string {
	n.t.Helper()
	var found []string
	n.do(func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, link := range links {
			if link.Type() == "vxlan" {
				found = append(found, "link "+link.Attrs().Name)
			}
		}
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		for _, route := range routes {
			found = append(found, "route "+route.Dst.String())
		}
		return err
	})
	for line := range strings.SplitSeq(n.run("nft", "list", "ruleset"), "\n") {
		if strings.Contains(line, filterTable) || strings.Contains(line, forwardChain) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return strings.Join(found, "\n")
}
