package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/garboard/garboard/test/containers/harness"
)

// joinTimeout bounds the time until all nodes are ready.
const joinTimeout = 2 * time.Minute

// agent is the node agent of a node.
type agent struct {
	cmd *exec.Cmd
	log *os.File
	dir string
}

// join starts the agents of the nodes, which join a plane, and waits until the nodes are ready.
func (c *containers) join(ctx context.Context, s settings, p *plane) error {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	bootstrap := filepath.Join(p.data, "bootstrap-kubeconfig")
	if _, err := p.garboard(ctx, s, "token", "create", "--bootstrap-kubeconfig", bootstrap, "--ttl", "0"); err != nil {
		return fmt.Errorf("creating a token for the nodes: %w", err)
	}
	for _, node := range c.nodes.List {
		started, err := c.startAgent(s, node, bootstrap)
		if err != nil {
			return fmt.Errorf("starting the agent of %s: %w", node.Name, err)
		}
		c.agents = append(c.agents, started)
	}
	for {
		nodes, err := p.garboard(ctx, s, "kubectl", "get", "nodes", "--no-headers")
		if err == nil && strings.Count(nodes, " Ready ") == len(c.agents) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the nodes to be ready: %w: %s; see %s", ctx.Err(), nodes, s.dir)
		case <-time.After(pollPause):
		}
	}
}

func (c *containers) startAgent(s settings, node *harness.Node, bootstrap string) (*agent, error) {
	dir, err := os.MkdirTemp("", "gb")
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(s.dir, "agent-"+node.Name+".log"))
	if err != nil {
		return nil, err
	}
	// Not with ctx: after a signal to this program, specs clean up before the agents end.
	a := &agent{dir: dir, log: log, cmd: node.Command(context.Background(), s.agent,
		"--node-name", node.Name, "--node-ip", node.Address.String(), "--runtime", node.Endpoint(), "--data-dir", dir,
		"--bootstrap-kubeconfig", bootstrap, "--nats-servers", "tls://"+c.nodes.Host.String()+":4222",
		"--cni-conf-dir", node.CNIDir(), "--health-address", "127.0.0.1:0",
	)}
	a.cmd.Stdout, a.cmd.Stderr = log, log
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return a, a.cmd.Start()
}

// leave ends the agents, and removes what they left.
func (c *containers) leave() {
	for _, a := range c.agents {
		_ = a.cmd.Process.Signal(syscall.SIGTERM)
		_ = a.cmd.Wait()
		if err := errors.Join(a.log.Close(), harness.Unmount(a.dir), os.RemoveAll(a.dir)); err != nil {
			fmt.Fprintln(os.Stderr, "removing what an agent has left:", err)
		}
	}
}

// garboard runs the plane's program as its administrator.
func (p *plane) garboard(ctx context.Context, s settings, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.garboard, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%w: %s", err, out)
	}
	return string(out), nil
}
