package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Name is the name of the Node.
const Name = "bench"

// startTimeout bounds how long a program may take until it is ready.
const startTimeout = 2 * time.Minute

// Where the plane serves.
const (
	apiAddress  = Address + ":6443"
	natsAddress = Address + ":4222"
)

// Node is a node and its plane.
type Node struct {
	// Client acts as the administrator.
	Client kubernetes.Interface
	// Dir is the folder of everything.
	Dir string

	up, containerd *Program
}

// Start starts the plane and containerd. It must run in Enter.
func Start(ctx context.Context, dir string) (n *Node, err error) {
	n = &Node{Dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	n.up, err = Run(dir, "plane", n.in("garboard"), "up", "--data-dir", n.in("plane"), "--nodes", "0", "--listen", apiAddress, "--nats-listen", natsAddress)
	if err != nil {
		return n, err
	}
	if err := n.up.Wait(ctx, startTimeout, n.up.printed("Garboard is up")); err != nil {
		return n, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", n.Kubeconfig())
	if err != nil {
		return n, fmt.Errorf("reading the kubeconfig of the administrator: %w", err)
	}
	config.QPS = -1
	if n.Client, err = kubernetes.NewForConfig(config); err != nil {
		return n, fmt.Errorf("creating a client: %w", err)
	}
	token := exec.CommandContext(ctx, n.in("garboard"), "token", "create", "--kubeconfig", n.Kubeconfig(), "--bootstrap-kubeconfig", n.in("bootstrap"), "--ttl", "0")
	if out, err := token.CombinedOutput(); err != nil {
		return n, fmt.Errorf("creating the token with which the agent joins: %w: %s", err, out)
	}
	return n, n.startContainerd(ctx)
}

func (n *Node) in(name string) string { return filepath.Join(n.Dir, name) }

// containerdConfig is the configuration of a containerd that keeps everything in a folder.
const containerdConfig = `version = 2
root = "%[1]s/containerd"
state = "%[1]s/containerd-state"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "%[1]s/containerd.sock"
[ttrpc]
  address = "%[1]s/containerd.sock.ttrpc"
[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"
[plugins."io.containerd.grpc.v1.cri"]
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "%[1]s/cni"
`

func (n *Node) startContainerd(ctx context.Context) (err error) {
	path := n.in("containerd.toml")
	if err := os.WriteFile(path, fmt.Appendf(nil, containerdConfig, n.Dir), 0o600); err != nil {
		return fmt.Errorf("configuring containerd: %w", err)
	}
	// The agent is not ready without a network of pods. There are none.
	network := `{"cniVersion": "1.0.0", "name": "bench", "plugins": [{"type": "loopback"}]}`
	if err := errors.Join(os.MkdirAll(n.in("cni"), 0o700), os.WriteFile(n.in("cni/bench.conflist"), []byte(network), 0o600)); err != nil {
		return fmt.Errorf("configuring containerd: %w", err)
	}
	if n.containerd, err = Run(n.Dir, "containerd", "containerd", "--config", path); err != nil {
		return err
	}
	return n.containerd.Wait(ctx, startTimeout, func() bool { return connects(ctx, "unix", n.socket()) })
}

func (n *Node) socket() string { return n.in("containerd.sock") }

// Kubeconfig returns the path of the administrator's kubeconfig.
func (n *Node) Kubeconfig() string { return n.in("plane/admin.kubeconfig") }

// Agent starts a node agent with flags for its network parts. Its first start joins the plane.
func (n *Node) Agent(name string, flags ...string) (*Program, error) {
	return Run(n.Dir, name, append([]string{
		n.in("nodeagent"), "--node-name", Name, "--node-ip", Address, "--runtime", "unix://" + n.socket(),
		"--bootstrap-kubeconfig", n.in("bootstrap"), "--nats-servers", "tls://" + natsAddress, "--health-address", AgentHealth,
		"--data-dir", n.in("agent"), "--pod-network=false", "--cni-conf-dir", n.in("cni"),
	}, flags...)...)
}

// AgentHealth is where agents serve their health and metrics.
const AgentHealth = "127.0.0.1:10248"

// connects reports whether something listens.
func connects(ctx context.Context, network, address string) bool {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// Close ends the plane and containerd.
func (n *Node) Close() error {
	var faults []error
	for _, p := range []*Program{n.containerd, n.up} {
		if p != nil {
			faults = append(faults, p.Stop())
		}
	}
	return errors.Join(faults...)
}
