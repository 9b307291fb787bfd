//go:build containers

package e2e_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// cluster is a plane with real nodes, each in a network namespace of its own.
type cluster struct {
	*plane.Plane
	// t is the test whose end stops the agents, whichever part of it started them.
	t     *testing.T
	nodes *harness.Nodes
	// program is the node agent, bootstrap the kubeconfig with which agents join, args what they all get.
	program, bootstrap string
	args               []string
	// agents are the node agents, dirs their data directories.
	agents []*exec.Cmd
	dirs   []string
}

// startCluster starts a plane and a number of nodes, and waits until they are ready. Nodes reach NATS at the host's
// address, and the API where the plane's arguments say that it listens.
func startCluster(t *testing.T, count int, listen func(host string) string, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, nodes: harness.StartNodes(t, count), args: args}
	host := c.nodes.Host.String()
	c.Plane = plane.Start(t, plane.Binary(t), "--nodes", "0", "--listen", listen(host), "--nats-listen", host+":4222",
		"--node-monitor-grace-period", monitorGrace.String())
	dir := t.TempDir()
	c.program, c.bootstrap = plane.Build(t, dir, "nodeagent"), filepath.Join(dir, "bootstrap-kubeconfig")
	res := c.Garboard(t, "token", "create", "--kubeconfig", c.Kubeconfig(), "--bootstrap-kubeconfig", c.bootstrap, "--ttl", "0")
	if res.Code != 0 {
		t.Fatalf("creating a token: %s%s", res.Stdout, res.Stderr)
	}
	for i := range c.nodes.List {
		dir := t.TempDir()
		t.Cleanup(func() {
			if err := harness.Unmount(dir); err != nil {
				t.Error(err)
			}
		})
		c.dirs, c.agents = append(c.dirs, dir), append(c.agents, nil)
		c.start(t, i)
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

// A node is not ready monitorGrace after its last sign of life. The agents renew their Leases every two seconds,
// a quarter of leaseSeconds, so that a busy machine alone makes no node not ready.
const (
	monitorGrace = 10 * time.Second
	defaultGrace = 50 * time.Second // without the flag
	leaseSeconds = "8"
)

// start starts the agent of a node.
func (c *cluster) start(t *testing.T, i int) {
	t.Helper()
	node := c.nodes.List[i]
	command := node.Command(context.WithoutCancel(t.Context()), c.program, append([]string{
		"--node-name", node.Name, "--node-ip", node.Address.String(), "--runtime", node.Endpoint(), "--data-dir", c.dirs[i],
		"--bootstrap-kubeconfig", c.bootstrap, "--nats-servers", "tls://" + c.nodes.Host.String() + ":4222",
		"--cni-conf-dir", node.CNIDir(), "--health-address", "127.0.0.1:0",
		"--node-lease-duration-seconds", leaseSeconds,
	}, c.args...)...)
	log := filepath.Join(c.dirs[i], "agent.log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = out, out
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	c.agents[i] = command
	c.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		_ = command.Wait()
		_ = out.Close()
		if text, err := os.ReadFile(log); err == nil && c.t.Failed() {
			c.t.Logf("the agent of %s:\n%s", node.Name, tail(string(text), 12_000))
		}
	})
}

// everywhere returns where the API listens if nodes are to reach it.
func everywhere(host string) string { return host + ":6443" }

func tail(text string, most int) string { return text[max(0, len(text)-most):] }

// TestNetwork: pods, Services and names work on three nodes without a further install.
func TestNetwork(t *testing.T) {
	c := startCluster(t, 3, everywhere)
	c.Must(t, "", "create", "-f", "testdata/web.yaml")
	c.Must(t, "", "rollout", "status", "deployment/web", "--timeout=3m")
	c.Must(t, "", "rollout", "status", "daemonset/client", "--timeout=3m")
	clients := strings.Fields(c.Must(t, "", "get", "pods", "-l", "app=client", "-o", "name"))
	t.Run("Services", func(t *testing.T) { c.services(t, clients) })
	t.Run("the API", func(t *testing.T) { c.api(t, clients) })
	t.Run("a rollout loses no request", c.rollout)
	t.Run("connections outlive the agent", c.outlive)
	t.Run("a node is cut off", c.cut)
	t.Run("a node reaches no other", c.alone)
	t.Run("nodes follow each other", c.follow)
}

// TestNetworkOfNATSAlone: pods reach the API on nodes that reach nothing but NATS, and the apiserver webhooks there.
func TestNetworkOfNATSAlone(t *testing.T) {
	c := startCluster(t, 1, func(string) string { return "127.0.0.1:0" }, "--api-transport", "nats")
	c.Must(t, "", "create", "-f", "testdata/web.yaml")
	c.Must(t, "", "rollout", "status", "daemonset/client", "--timeout=3m")
	c.api(t, strings.Fields(c.Must(t, "", "get", "pods", "-l", "app=client", "-o", "name")))
	t.Run("a webhook in a pod", c.webhook)
}

// TestNetworkParts: each part that is switched off leaves the others working.
func TestNetworkParts(t *testing.T) {
	c := startCluster(t, 1, everywhere)
	c.Must(t, "", "create", "-f", "testdata/web.yaml")
	c.Must(t, "", "rollout", "status", "deployment/web", "--timeout=3m")
	c.Must(t, "", "rollout", "status", "daemonset/client", "--timeout=3m")
	client := strings.TrimSpace(c.Must(t, "", "get", "pods", "-l", "app=client", "-o", "name"))
	address := "http://" + c.Must(t, "", "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	pod := "http://" + c.Must(t, "", "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].status.podIP}")
	works := func(url string) func() error {
		return func() error {
			if res := c.Kubectl(t, "", "exec", client, "--", "wget", "-O-", url); res.Code != 0 || !strings.HasPrefix(res.Stdout, "web-") {
				return fmt.Errorf("%s: exit code %d, %s%s", url, res.Code, res.Stdout, res.Stderr)
			}
			return nil
		}
	}
	not := func(check func() error) func() error {
		return func() error {
			if check() == nil {
				return errors.New("it still works")
			}
			return nil
		}
	}
	node := c.nodes.List[0]
	for _, part := range []struct {
		flags  []string
		before func()
		checks map[string]func() error
	}{
		{nil, func() {}, map[string]func() error{"a name": works("http://web"), "a Service": works(address), "a pod": works(pod)}},
		{[]string{"--dns=false"}, func() {}, map[string]func() error{"a name": not(works("http://web")), "a Service": works(address)}},
		{[]string{"--service-proxy=false"}, func() {}, map[string]func() error{
			"a name": works("http://peers"), "a Service": not(works(address)), "a pod": works(pod),
		}},
		{[]string{"--pod-network=false"}, func() { node.BringNetwork(t) }, map[string]func() error{
			"a name": works("http://web"), "a Service": works(address), "a new pod": func() error {
				c.Must(t, "", "delete", client, "--wait=false")
				c.Must(t, "", "rollout", "status", "daemonset/client", "--timeout=2m")
				client = strings.Fields(c.Must(t, "", "get", "pods", "-l", "app=client", "--field-selector=status.phase=Running", "-o", "name"))[0]
				return nil
			},
		}},
	} {
		_ = c.agents[0].Process.Signal(syscall.SIGTERM)
		_ = c.agents[0].Wait()
		part.before()
		c.args = part.flags
		c.start(t, 0)
		for what, check := range part.checks {
			plane.Eventually(t, fmt.Sprintf("%s to be as it should with %q", what, part.flags), func(context.Context) error { return check() })
		}
	}
}

// cut takes a node off the link. Requests go elsewhere within two seconds of its Node's being not ready.
func (c *cluster) cut(t *testing.T) {
	lost := c.nodes.List[2]
	lost.Cut(t)
	started := time.Now()
	plane.Eventually(t, "the node to be not ready", func(context.Context) error {
		out := c.Must(t, "", "get", "node", lost.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if out == "True" {
			return errors.New("it is ready")
		}
		return nil
	})
	noticed := time.Now()
	t.Logf("the node was not ready %v after it was cut off", noticed.Sub(started).Round(time.Millisecond))
	if took := noticed.Sub(started); took >= defaultGrace {
		t.Errorf("the node was not ready only %v after it was cut off: the plane ignores its grace of %v", took, monitorGrace)
	}
	if held := c.Must(t, "", "get", "lease", "-n", "kube-node-lease", lost.Name, "-o", "jsonpath={.spec.leaseDurationSeconds}"); held != leaseSeconds {
		t.Errorf("the lease holds for %s s, want %s", held, leaseSeconds)
	}
	// A third of the requests went to the lost node. One that fails on a loaded machine is none of them.
	client := freshClient(time.Second)
	ticks := time.NewTicker(20 * time.Millisecond)
	defer ticks.Stop()
	asked, failed, early := 0, 0, 0
	for time.Since(noticed) < 10*time.Second {
		<-ticks.C
		late := time.Since(noticed) > 2*time.Second
		answer, err := client.Get("http://" + c.nodes.List[0].Address.String() + ":30080")
		switch {
		case err == nil:
			_ = answer.Body.Close()
		case late:
			failed++
		default:
			early++
		}
		if late {
			asked++
		}
	}
	t.Logf("of %d requests later than 2s after the node was seen to be not ready %d failed; %d before", asked, failed, early)
	if asked < 20 || failed*20 > asked {
		t.Errorf("%d of %d requests still go to the lost node", failed, asked)
	}
	lost.Mend(t)
	plane.Eventually(t, "the node to be back", func(context.Context) error {
		out := c.Must(t, "", "get", "node", lost.Name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`)
		if out != "True" {
			return errors.New("it is not ready")
		}
		return nil
	})
}

// api asks the API from pods, as their clients do.
func (c *cluster) api(t *testing.T, clients []string) {
	for _, client := range clients {
		plane.Eventually(t, "the API to answer "+client, func(context.Context) error {
			res := c.Kubectl(t, "", "exec", client, "--", "wget", "-O-", "https://kubernetes.default/version")
			if res.Code != 0 || !strings.Contains(res.Stdout, `"gitVersion"`) {
				return fmt.Errorf("exit code %d, %s%s", res.Code, res.Stdout, res.Stderr)
			}
			return nil
		})
	}
}

// rollout replaces the pods of a Service while clients ask it, each time by a new connection.
func (c *cluster) rollout(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	var asked, lost atomic.Int64
	client := freshClient(20 * time.Second)
	for i := range 4 {
		url := "http://" + c.nodes.List[i%len(c.nodes.List)].Address.String() + ":30080"
		asking.Go(func() {
			for ctx.Err() == nil {
				answer, err := client.Get(url)
				asked.Add(1)
				if err == nil {
					_, err = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
				if err != nil || answer.StatusCode != http.StatusOK {
					lost.Add(1)
					t.Errorf("%s: %v", url, err)
				}
			}
		})
	}
	c.Must(t, "", "rollout", "restart", "deployment/web")
	c.Must(t, "", "rollout", "status", "deployment/web", "--timeout=4m")
	stop()
	asking.Wait()
	t.Logf("%d requests, %d lost", asked.Load(), lost.Load())
	if asked.Load() < 100 {
		t.Errorf("only %d requests were made", asked.Load())
	}
}

// outlive kills the agents while a connection is open through the rules of each.
func (c *cluster) outlive(t *testing.T) {
	var conns []net.Conn
	for _, node := range c.nodes.List {
		conn, err := net.Dial("tcp", node.Address.String()+":30080")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for i := range c.agents {
		if err := c.agents[i].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.agents[i].Wait()
	}
	ask := func(conn net.Conn, request string) {
		t.Helper()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(conn, request); err != nil {
			t.Error(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Error(err)
			return
		}
		_ = answer.Body.Close()
	}
	for i, conn := range conns {
		ask(conn, "Host: web\r\n\r\n")
		fresh, err := net.Dial("tcp", c.nodes.List[i].Address.String()+":30080")
		if err != nil {
			t.Errorf("without its agent, a node does not serve: %v", err)
			continue
		}
		ask(fresh, "GET / HTTP/1.1\r\nHost: web\r\n\r\n")
		_ = fresh.Close()
	}
	for i := range c.agents {
		c.start(t, i)
	}
	for i, conn := range conns {
		plane.Eventually(t, "the agent to be back", func(context.Context) error {
			answer, err := freshClient(5 * time.Second).Get("http://" + c.nodes.List[i].Address.String() + ":10256/healthz")
			if err != nil {
				return err
			}
			defer func() { _ = answer.Body.Close() }()
			if answer.StatusCode != http.StatusOK {
				return errors.New(answer.Status)
			}
			return nil
		})
		ask(conn, "GET / HTTP/1.1\r\nHost: web\r\n\r\n")
	}
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
		answer, err := freshClient(20 * time.Second).Get("http://" + node.Address.String() + ":30080")
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

// freshClient returns a client that makes a connection for each request, of which nothing is left after its timeout.
func freshClient(timeout time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: timeout}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialer.DialContext}, Timeout: timeout}
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
