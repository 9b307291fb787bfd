//go:build containers

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// cluster is a plane with real nodes, each in a network namespace of its own.
type cluster struct {
	*plane.Plane
	nodes *harness.Nodes
	// program is the node agent, bootstrap the kubeconfig with which agents join, args what they all get.
	program, bootstrap string
	args               []string
	agents             []*joiningNode
}

// startCluster starts a plane and a number of nodes, and waits until they are ready.
func startCluster(t *testing.T, count int, args ...string) *cluster {
	t.Helper()
	c := &cluster{nodes: harness.StartNodes(t, count), args: args}
	host := c.nodes.Host.String()
	c.Plane = plane.Start(t, plane.Binary(t), "--nodes", "0", "--listen", host+":6443", "--nats-listen", host+":4222")
	dir := t.TempDir()
	c.program, c.bootstrap = plane.Build(t, dir, "nodeagent"), filepath.Join(dir, "bootstrap-kubeconfig")
	res := c.Garboard(t, "token", "create", "--kubeconfig", c.Kubeconfig(), "--bootstrap-kubeconfig", c.bootstrap, "--ttl", "0")
	if res.Code != 0 {
		t.Fatalf("creating a token: %s%s", res.Stdout, res.Stderr)
	}
	for i := range c.nodes.List {
		c.agents = append(c.agents, c.start(t, i))
	}
	plane.Eventually(t, "the nodes to be ready", func(context.Context) error {
		out := c.Must(t, "", "get", "nodes", "--no-headers")
		if n := len(regexp.MustCompile(`(?m)^\S+ +Ready `).FindAllString(out, -1)); n != count {
			return fmt.Errorf("%d are:\n%s", n, out)
		}
		return nil
	})
	return c
}

// start starts the agent of a node.
func (c *cluster) start(t *testing.T, i int) *joiningNode {
	t.Helper()
	node := c.nodes.List[i]
	dir, err := os.MkdirTemp("", "gb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := harness.Unmount(dir); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	command := node.Command(context.WithoutCancel(t.Context()), c.program, append([]string{
		"--node-name", node.Name, "--node-ip", node.Address.String(), "--runtime", node.Endpoint(), "--data-dir", dir,
		"--bootstrap-kubeconfig", c.bootstrap, "--nats-servers", "tls://" + c.nodes.Host.String() + ":4222",
		"--cni-conf-dir", node.CNIDir(), "--health-address", "127.0.0.1:0",
	}, c.args...)...)
	log := filepath.Join(dir, "agent.log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		_ = out.Close()
		if text, err := os.ReadFile(log); err == nil && t.Failed() {
			t.Logf("the agent of %s:\n%s", node.Name, tail(string(text), 12_000))
		}
	})
	return nil
}

func tail(text string, most int) string { return text[max(0, len(text)-most):] }

// TestNetwork: pods of several nodes reach each other.
func TestNetwork(t *testing.T) {
	c := startCluster(t, 2)
	c.Must(t, "", "create", "-f", "testdata/nginx.yaml")
	c.Must(t, "", "rollout", "status", "deployment/nginx-deployment")
	fmt.Println(c.Must(t, "", "get", "pods", "-o", "wide"))
	for _, command := range [][]string{{"ip", "addr"}, {"ip", "route"}, {"nft", "list", "ruleset"}} {
		out, _ := c.nodes.List[0].Command(t.Context(), command[0], command[1:]...).CombinedOutput()
		fmt.Println(strings.Join(command, " ")+"\n", string(out))
	}
}
