package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Bounds of starting and cleaning up on a loaded machine.
const (
	startTimeout = 5 * time.Minute
	stopTimeout  = 3 * time.Minute
)

// dirPrefix is the name prefix of the folders that hold all files of a harness.
const dirPrefix = "garboard-containers-"

// Containers is a private containerd with its registry.
type Containers struct {
	dir      string
	network  network
	registry *registry
	process  *exec.Cmd
	// exited is closed when process has ended, with exit as its error.
	exited chan struct{}
	exit   error
	// namespace is where it runs; this process's network namespace if it has no name.
	namespace inNamespace
	// address is where the registry listens.
	address string
	// orphaned holds the command lines of the shims that ran when containerd was killed.
	orphaned map[string]bool
}

// Start builds the images and starts a registry and a containerd, which end with the test. It calls
// Require first.
func Start(t testing.TB) *Containers {
	t.Helper()
	Require(t)
	return startWith(t, inNamespace{registry: "127.0.0.1:0"})
}

// StartLike starts a further containerd, with the images of another. It ends with the test.
func StartLike(t testing.TB, images *Containers) *Containers {
	t.Helper()
	return startWith(t, inNamespace{like: images})
}

// inNamespace is a network namespace in which a containerd runs.
type inNamespace struct {
	// name is empty for this process's own, in which the runtime gets a network configuration.
	name string
	// registry is the address at which the registry listens. If like is set its registry and images are used.
	registry string
	like     *Containers
}

func startWith(t testing.TB, namespace inNamespace) *Containers {
	t.Helper()
	// Not t.Context, which ends before the cleanup does.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
	defer cancel()
	sweep(t)
	//nolint:usetesting // a socket's path must be short, and sweep must find it after a kill
	dir, err := os.MkdirTemp("", dirPrefix)
	if err != nil {
		t.Fatalf("creating the folder of the containers: %v", err)
	}
	c := &Containers{dir: dir, registry: newRegistry(), namespace: namespace, orphaned: make(map[string]bool)}
	t.Cleanup(func() { c.stop(t) })
	if err := c.start(ctx, t); err != nil {
		t.Fatalf("starting containerd: %v\n%s", err, c.log())
	}
	return c
}

// Endpoint returns containerd's CRI endpoint ("unix:///…").
func (c *Containers) Endpoint() string { return "unix://" + c.socket() }

// Subnet returns the address range of the pods.
func (c *Containers) Subnet() netip.Prefix { return c.network.subnet }

func (c *Containers) socket() string { return filepath.Join(c.dir, "containerd.sock") }

func (c *Containers) start(ctx context.Context, t testing.TB) error {
	for _, folder := range []string{"bin", "cni", "certs", "logs"} {
		if err := os.MkdirAll(filepath.Join(c.dir, folder), 0o755); err != nil {
			return err
		}
	}
	// For sweep, in case this process is killed.
	if err := os.WriteFile(filepath.Join(c.dir, "owner"), []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return err
	}
	if like := c.namespace.like; like != nil {
		c.registry, c.address = like.registry, like.address
	} else {
		if err := c.build(ctx); err != nil {
			return err
		}
		address, err := c.serveRegistry(ctx, t, c.namespace.registry)
		if err != nil {
			return err
		}
		c.address = address
	}
	if err := c.configure(c.address); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "cgroup"), []byte(c.Cgroup()), 0o644); err != nil {
		return err
	}
	return c.launch(ctx)
}

// launch starts containerd and waits until it is ready.
func (c *Containers) launch(ctx context.Context) error {
	output, err := os.OpenFile(filepath.Join(c.dir, "containerd.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	// Not bound to ctx: it runs until the test ends.
	c.process = exec.Command("containerd", "--config", filepath.Join(c.dir, "containerd.toml"))
	if c.namespace.name != "" {
		c.process = exec.Command("nsenter", within(c.namespace.name, c.process.Args[0], c.process.Args[1:]...)...)
	}
	c.process.Stdout, c.process.Stderr = output, output
	if err := c.process.Start(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(c.dir, "containerd.pid"), []byte(strconv.Itoa(c.process.Process.Pid)), 0o644); err != nil {
		return err
	}
	process, exited := c.process, make(chan struct{})
	c.exited = exited
	go func() {
		defer close(exited)
		c.exit = process.Wait()
	}()
	return c.ready(ctx)
}

// Kill kills containerd like a crash; containers keep running.
func (c *Containers) Kill(t testing.TB) {
	t.Helper()
	if err := c.process.Process.Kill(); err != nil {
		t.Fatalf("killing containerd: %v", err)
	}
	<-c.exited
	c.process = nil
	for _, command := range c.shims() {
		c.orphaned[command] = true
	}
}

// Restart starts containerd again after Kill.
func (c *Containers) Restart(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := c.launch(ctx); err != nil {
		t.Fatalf("restarting containerd: %v\n%s", err, c.log())
	}
}

// Cgroup returns the path of a cgroup that belongs to the test, for use as the parent of its pods'
// cgroups. It is removed, with everything below it, when the test ends.
func (c *Containers) Cgroup() string {
	return "/" + filepath.Base(c.dir)
}

// ready waits until containerd reports that runtime and network are ready. In a namespace of its own it waits
// for no network, which comes with the node agent.
func (c *Containers) ready(ctx context.Context) error {
	client, closeClient, err := connect(c.socket())
	if err != nil {
		return err
	}
	defer closeClient()
	var last error
	for {
		status, err := client.Status(ctx, &cri.StatusRequest{})
		ready := err == nil
		last = err
		for _, condition := range status.GetStatus().GetConditions() {
			if !condition.GetStatus() && (c.namespace.name == "" || condition.GetType() != cri.NetworkReady) {
				ready = false
				last = fmt.Errorf("%s: %s", condition.GetType(), condition.GetMessage())
			}
		}
		if ready {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("containerd exited: %w", c.exit)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func connect(socket string) (cri.RuntimeServiceClient, func(), error) {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, nil, err
	}
	return cri.NewRuntimeServiceClient(conn), func() { _ = conn.Close() }, nil
}

// serveRegistry serves the registry until the test ends.
func (c *Containers) serveRegistry(ctx context.Context, t testing.TB, address string) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	server := &http.Server{Handler: c.registry, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving the registry: %v", err)
		}
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	return listener.Addr().String(), nil
}

// configure writes the configuration of containerd, CNI and the registry.
func (c *Containers) configure(registry string) error {
	plugins, err := cniFolder()
	if err != nil {
		return err
	}
	files := map[string]string{
		"containerd.toml":           containerdConfig(c.dir, plugins),
		"certs/_default/hosts.toml": hostsConfig(registry),
	}
	if c.namespace.name == "" {
		if c.network, err = freeNetwork(); err != nil {
			return err
		}
		files["cni/10-test.conflist"], files["bridge"] = c.network.conflist(c.dir), c.network.bridge
	}
	for name, content := range files {
		path := filepath.Join(c.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// hostsConfig redirects every registry to the harness's own, without a fallback.
func hostsConfig(registry string) string {
	return fmt.Sprintf("server = \"http://%[1]s\"\n\n[host.\"http://%[1]s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", registry)
}

// containerdConfig returns a configuration that keeps everything below dir. restrict_oom_score_adj
// is needed on machines without CAP_SYS_RESOURCE, which refuse the score that sandboxes request.
func containerdConfig(dir, plugins string) string {
	return fmt.Sprintf(`version = 2
root = "%[1]s/root"
state = "%[1]s/state"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing",
]

[grpc]
  address = "%[1]s/containerd.sock"

[ttrpc]
  address = "%[1]s/containerd.sock.ttrpc"

[plugins."io.containerd.internal.v1.opt"]
  path = "%[1]s/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "%[2]s"
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "%[3]s"
    conf_dir = "%[1]s/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "%[1]s/certs"
`, dir, PauseImage, plugins)
}

// log returns the end of containerd's log.
func (c *Containers) log() string {
	content, err := os.ReadFile(filepath.Join(c.dir, "containerd.log"))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(lines[max(0, len(lines)-40):], "\n")
}

// stop ends every pod and containerd, and removes what they leave behind.
func (c *Containers) stop(t testing.TB) {
	if t.Failed() {
		t.Logf("containerd's log:\n%s", c.log())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), stopTimeout)
	defer cancel()
	if c.process == nil && c.address != "" {
		// It was killed, and only containerd can remove its pods.
		if err := c.launch(ctx); err != nil {
			t.Errorf("starting containerd to clean up: %v", err)
		}
	}
	if c.process != nil && c.process.Process != nil {
		err := removePods(ctx, c.socket())
		// containerd fails to stop a container that exits at the same moment; a retry succeeds.
		for tries := 1; err != nil && tries < 5 && ctx.Err() == nil; tries++ {
			<-time.After(time.Second)
			err = removePods(ctx, c.socket())
		}
		if err != nil {
			t.Errorf("removing the pods: %v", err)
		}
		_ = c.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.exited:
		case <-time.After(30 * time.Second):
			_ = c.process.Process.Kill()
			<-c.exited
		}
	}
	if err := clean(c.dir); err != nil {
		t.Errorf("cleaning up after the containers: %v", err)
	}
}

// removePods stops and removes every sandbox, which also releases its network.
func removePods(ctx context.Context, socket string) error {
	client, closeClient, err := connect(socket)
	if err != nil {
		return err
	}
	defer closeClient()
	list, err := client.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	var faults []error
	for _, sandbox := range list.GetItems() {
		if _, err := client.StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: sandbox.GetId()}); err != nil {
			faults = append(faults, err)
		}
		if _, err := client.RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: sandbox.GetId()}); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}
