//go:build containers

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
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

// TestNetwork: pods, Services and names work on three nodes without a further install.
func TestNetwork(t *testing.T) {
	c := startCluster(t, 3)
	c.Must(t, "", "create", "-f", "testdata/web.yaml")
	c.Must(t, "", "rollout", "status", "deployment/web", "--timeout=3m")
	c.Must(t, "", "rollout", "status", "daemonset/client", "--timeout=3m")
	clients := strings.Fields(c.Must(t, "", "get", "pods", "-l", "app=client", "-o", "name"))
	t.Run("Services", func(t *testing.T) { c.services(t, clients) })
}

// services asks each Service from each node.
func (c *cluster) services(t *testing.T, clients []string) {
	for _, client := range clients {
		for _, url := range []string{"http://web", "http://web.default", "http://web.default.svc.cluster.local", "http://peers"} {
			seen := map[string]bool{}
			for range 12 {
				seen[strings.TrimSpace(c.wget(t, client, url))] = true
			}
			if len(seen) < 2 {
				t.Errorf("%s from %s is answered by %v", url, client, seen)
			}
		}
		if res := c.Kubectl(t, "", "exec", client, "--", "wget", "http://empty"); res.Code == 0 || !strings.Contains(res.Stdout+res.Stderr, "refused") {
			t.Errorf("a Service without endpoints: exit code %d, %s%s", res.Code, res.Stdout, res.Stderr)
		}
		if res := c.Kubectl(t, "", "exec", client, "--", "wget", "http://no-such-service"); res.Code == 0 || !strings.Contains(res.Stdout+res.Stderr, "no such host") {
			t.Errorf("a name that does not exist: exit code %d, %s%s", res.Code, res.Stdout, res.Stderr)
		}
	}
	for _, node := range c.nodes.List {
		answer, err := http.Get("http://" + node.Address.String() + ":30080")
		if err != nil {
			t.Errorf("the NodePort of %s: %v", node.Name, err)
			continue
		}
		body, err := io.ReadAll(answer.Body)
		if _ = answer.Body.Close(); err != nil || !strings.HasPrefix(string(body), "web-") {
			t.Errorf("the NodePort of %s answers %q, %v", node.Name, body, err)
		}
	}
}

// wget returns what a URL answers a pod.
func (c *cluster) wget(t *testing.T, pod, url string) string {
	t.Helper()
	res := c.Kubectl(t, "", "exec", pod, "--", "wget", "-O-", url)
	if res.Code != 0 {
		t.Fatalf("%s from %s: exit code %d, %s%s", url, pod, res.Code, res.Stdout, res.Stderr)
	}
	return res.Stdout
}
