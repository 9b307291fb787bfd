//go:build containers

package e2e_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// followBound is far more than the time in which nodes follow each other, which the test logs: this machine may be busy.
const followBound = 30 * time.Second

// ip runs the program ip on a node.
func (c *cluster) ip(t *testing.T, node *harness.Node, args ...string) string {
	t.Helper()
	out, err := node.Command(t.Context(), "ip", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ip %v on %s: %v: %s", args, node.Name, err, out)
	}
	return string(out)
}

// hasCondition waits until a node has a condition.
func (c *cluster) hasCondition(t *testing.T, node *harness.Node, kind, status string) {
	t.Helper()
	plane.Eventually(t, fmt.Sprintf("%s of %s to be %s", kind, node.Name, status), func(context.Context) error {
		out := c.Must(t, "", "get", "node", node.Name, "-o", `jsonpath={.status.conditions[?(@.type=="`+kind+`")]}`)
		if !strings.Contains(out, `"status":"`+status+`"`) {
			return fmt.Errorf("it is %s", out)
		}
		return nil
	})
}

// alone keeps a node from the other nodes, but not from NATS. Its conditions say so, and pods are still placed there.
func (c *cluster) alone(t *testing.T) {
	node := c.nodes.List[0]
	for _, other := range c.nodes.List {
		c.hasCondition(t, other, "NetworkUnavailable", "False")
		c.hasCondition(t, other, nodeapi.PeersReachable, "True")
		c.hasCondition(t, other, nodeapi.NetworkPartsReady, "True")
	}
	for _, other := range c.nodes.List[1:] {
		c.ip(t, node, "route", "add", "prohibit", other.Address.String()+"/32")
	}
	c.hasCondition(t, node, nodeapi.PeersReachable, "False")
	c.hasCondition(t, node, "NetworkUnavailable", "False")
	c.hasCondition(t, node, "Ready", "True")
	if taints := c.Must(t, "", "get", "node", node.Name, "-o", "jsonpath={.spec.taints}"); taints != "" {
		t.Errorf("the node has the taints %s", taints)
	}
	for _, other := range c.nodes.List[1:] {
		c.ip(t, node, "route", "del", "prohibit", other.Address.String()+"/32")
	}
	c.hasCondition(t, node, nodeapi.PeersReachable, "True")
}

// follow measures how soon a node follows another one that changes its address, leaves and comes back.
func (c *cluster) follow(t *testing.T) {
	here, moving := c.nodes.List[0], c.nodes.List[1]
	routes := func() string { return c.ip(t, here, "route", "show", "proto", "103") }
	followed := func(what string, is func(routes string) bool) {
		t.Helper()
		began := time.Now()
		for !is(routes()) {
			if time.Since(began) > followBound {
				t.Fatalf("%s is not followed; the routes are\n%s", what, routes())
			}
			<-time.After(20 * time.Millisecond)
		}
		t.Logf("%s is followed %v after it was seen", what, time.Since(began).Round(time.Millisecond))
	}
	octets := moving.Address.As4()
	octets[3] += 100
	second := netip.AddrFrom4(octets)
	c.ip(t, moving, "address", "add", second.String()+"/24", "dev", "eth0")
	before := c.args
	defer func() { c.args = before }()
	c.args = append(slices.Clip(before), "--node-ip", second.String())
	stop := func() {
		_ = c.agents[1].Process.Signal(syscall.SIGTERM)
		_ = c.agents[1].Wait()
	}
	stop()
	c.start(t, 1)
	plane.Eventually(t, "the node to have its other address", func(context.Context) error {
		if out := c.Must(t, "", "get", "node", moving.Name, "-o", "jsonpath={.status.addresses}"); !strings.Contains(out, second.String()+`"`) {
			return fmt.Errorf("its addresses are %s", out)
		}
		return nil
	})
	via := "via " + second.String() + " "
	followed("another address", func(routes string) bool { return strings.Contains(routes, via) })
	stop() // An agent that runs creates its Node anew at once.
	c.Must(t, "", "delete", "node", moving.Name, "--wait=false")
	followed("a node that leaves", func(routes string) bool { return !strings.Contains(routes, via) })
	c.start(t, 1)
	plane.Eventually(t, "the node to be back", func(context.Context) error {
		if out := c.Must(t, "", "get", "node", moving.Name, "--ignore-not-found", "-o", "jsonpath={.spec.podCIDR}"); out == "" {
			return fmt.Errorf("it has no range")
		}
		return nil
	})
	followed("a node that comes back", func(routes string) bool { return strings.Contains(routes, via) })
}
