package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
	"github.com/garboard/garboard/test/containers/harness"
)

// patience is how long a test waits for something that is slow on a loaded machine.
const patience = 2 * time.Minute

// bench is a runtime under test.
type bench struct {
	client *runtime.Client
	logs   string
	real   bool
	subnet netip.Prefix
	cgroup string
	number int
}

// TestSimulated checks the simulated runtime against containerd's behaviour; TestContainerd checks
// that containerd behaves as the suite assumes.
func TestSimulated(t *testing.T) {
	subnet := netip.MustParsePrefix("10.200.7.0/24")
	server, err := simulated.New(simulated.Config{Dir: filepath.Join(t.TempDir(), "state"), PodCIDR: subnet})
	if err != nil {
		t.Fatal(err)
	}
	run(t, server.Run)
	conform(t, &bench{client: connect(t, server.Endpoint()), logs: t.TempDir(), subnet: subnet})
}

func TestContainerd(t *testing.T) {
	containers := harness.Start(t)
	b := &bench{
		client: connect(t, containers.Endpoint()), logs: t.TempDir(), real: true,
		subnet: containers.Subnet(), cgroup: containers.Cgroup(),
	}
	conform(t, b)
	t.Run("containerd is killed", func(t *testing.T) { testCrash(t, b, containers) })
}

// run runs run until the test ends.
func run(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() {
		if err := run(ctx); err != nil {
			t.Errorf("running: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		group.Wait()
	})
}

func connect(t *testing.T, endpoint string) *runtime.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client, err := runtime.Connect(ctx, endpoint, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	client.Own("node-under-test")
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return client
}

// conform runs the suite.
func conform(t *testing.T, b *bench) {
	for _, test := range []struct {
		name string
		test func(*testing.T, *bench)
	}{
		{"version and status", testVersion},
		{"images", testImages},
		{"lifecycle", testLifecycle},
		{"exit code", testExitCode},
		{"init container", testInit},
		{"forced stop", testForce},
		{"start fails", testStartFails},
		{"exec", testExec},
		{"sessions", testSessions},
		{"log", testLog},
		{"removal of a sandbox", testRemoval},
		{"reserved names", testNames},
		{"missing objects", testAbsent},
		{"owners", testOwners},
		{"mounts, environment, user", testMounts},
		{"memory limit", testMemory},
		{"network", testNetwork},
		{"the processes of another", testTarget},
		{"usage", testUsage},
	} {
		t.Run(test.name, func(t *testing.T) { test.test(t, b) })
	}
}

// pod returns the configuration of a sandbox for one test.
func (b *bench) pod(t *testing.T, annotations map[string]string) runtime.SandboxConfig {
	t.Helper()
	b.number++
	cfg := runtime.SandboxConfig{
		Name: fmt.Sprintf("pod-%d", b.number), Namespace: "default", UID: fmt.Sprintf("0a1b-%d-%d", b.number, time.Now().UnixNano()),
		Hostname: fmt.Sprintf("pod-%d", b.number), Labels: map[string]string{"app": "test"}, Annotations: annotations,
	}
	cfg.LogDirectory = filepath.Join(b.logs, cfg.UID)
	if b.cgroup != "" {
		cfg.CgroupParent = b.cgroup + "/pod" + cfg.UID
	}
	if err := os.MkdirAll(cfg.LogDirectory, 0o755); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// sandbox runs a sandbox and removes it when the test ends.
func (b *bench) sandbox(t *testing.T, cfg runtime.SandboxConfig) string {
	t.Helper()
	id, err := b.client.RunSandbox(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(b.client.StopSandbox(ctx, id), b.client.RemoveSandbox(ctx, id)); err != nil {
			t.Error(err)
		}
	})
	return id
}

func (b *bench) pull(t *testing.T, image string) string {
	t.Helper()
	ref, err := b.client.PullImage(t.Context(), image, runtime.Auth{}, runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

// shell returns a container that runs a line of shell.
func (b *bench) shell(t *testing.T, name, script string) runtime.ContainerConfig {
	t.Helper()
	return runtime.ContainerConfig{
		Name: name, Image: b.pull(t, "busybox"), UserImage: "busybox", Command: []string{"sh", "-c", script}, LogPath: name + "_0.log",
	}
}

// start creates and starts a container.
func (b *bench) start(t *testing.T, sandbox string, cfg runtime.ContainerConfig, pod runtime.SandboxConfig) string {
	t.Helper()
	id, err := b.client.CreateContainer(t.Context(), sandbox, cfg, pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// find waits until the container in the list is as wanted.
func (b *bench) find(t *testing.T, id string, wanted func(runtime.Container) bool) runtime.Container {
	t.Helper()
	var last []runtime.Container
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		all, err := b.client.Containers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		last = all
		for _, c := range all {
			if c.ID == id && wanted(c) {
				return c
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("the container %s did not reach the wanted state: %+v", id, last)
	return runtime.Container{}
}

func ended(c runtime.Container) bool { return c.State == runtime.Exited }

func testVersion(t *testing.T, b *bench) {
	version, err := b.client.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wanted := "simulated"
	if b.real {
		wanted = "containerd"
	}
	if version.Name != wanted || version.Version == "" || version.API != "v1" {
		t.Errorf("version is %+v", version)
	}
	status, err := b.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(runtime.Status{RuntimeReady: true, NetworkReady: true}, status); diff != "" {
		t.Error(diff)
	}
}

func testImages(t *testing.T, b *bench) {
	const name = "docker.io/library/nginx:1.14.2"
	if _, err := b.client.ImageStatus(t.Context(), name); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("an image that was not pulled: %v", err)
	}
	ref := b.pull(t, "nginx:1.14.2")
	image, err := b.client.ImageStatus(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if image.ID != ref || !strings.HasPrefix(ref, "sha256:") || image.Size == 0 {
		t.Errorf("pulled %s, got the image %+v", ref, image)
	}
	if len(image.Digests) != 1 || !strings.HasPrefix(image.Digests[0], "docker.io/library/nginx@sha256:") {
		t.Errorf("digests are %v", image.Digests)
	}
	if diff := cmp.Diff([]string{name}, image.Tags); diff != "" {
		t.Error(diff)
	}
	if again := b.pull(t, "nginx:1.14.2"); again != ref {
		t.Errorf("the same image is %s, want %s", again, ref)
	}
	if other := b.pull(t, "nginx:1.16.1"); other == ref {
		t.Error("two versions are the same image")
	}
	if byDigest := b.pull(t, image.Digests[0]); byDigest != ref {
		t.Errorf("by digest the image is %s, want %s", byDigest, ref)
	}
	all, err := b.client.ListImages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(all, func(i runtime.Image) bool { return i.ID == ref }) {
		t.Errorf("the image is not in the list %+v", all)
	}
	for range 2 {
		if err := b.client.RemoveImage(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if !b.real {
			// The image's digest reference is a second record here, removed by the second call.
			continue
		}
		if _, err := b.client.ImageStatus(t.Context(), name); !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("a removed image: %v", err)
		}
	}
	if !b.real {
		return
	}
	_, err = b.client.PullImage(t.Context(), "nginx:no-such-tag", runtime.Auth{}, runtime.SandboxConfig{})
	if !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("a tag missing in the registry: %v", err)
	}
	if _, err = b.client.PullImage(t.Context(), harness.PrivateImage, runtime.Auth{}, runtime.SandboxConfig{}); err == nil {
		t.Error("a private image was pulled without credentials")
	}
	auth := runtime.Auth{Username: harness.PrivateUser, Password: harness.PrivatePassword}
	if _, err = b.client.PullImage(t.Context(), harness.PrivateImage, auth, runtime.SandboxConfig{}); err != nil {
		t.Errorf("a private image with credentials: %v", err)
	}
}

func testLifecycle(t *testing.T, b *bench) {
	pod := b.pod(t, nil)
	sandboxID := b.sandbox(t, pod)
	sandboxes, err := b.client.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(sandboxes) != 1 {
		t.Fatalf("sandboxes are %+v", sandboxes)
	}
	got := sandboxes[0]
	if got.ID != sandboxID || got.PodUID != pod.UID || got.PodName != pod.Name || got.Namespace != "default" || !got.Ready ||
		got.CreatedAt.IsZero() || got.Labels["app"] != "test" || got.Labels[runtime.LabelPodUID] != pod.UID {
		t.Errorf("the sandbox is %+v", got)
	}
	if len(got.IPs) != 1 || !b.subnet.Contains(netip.MustParseAddr(got.IPs[0])) {
		t.Errorf("its addresses are %v, not in %s", got.IPs, b.subnet)
	}

	cfg := b.shell(t, "main", "sleep 1000")
	cfg.Attempt = 2
	cfg.Labels = map[string]string{"more": "labels"}
	cfg.Annotations = map[string]string{"garboard.io/hash": "abc"}
	id, err := b.client.CreateContainer(t.Context(), sandboxID, cfg, pod)
	if err != nil {
		t.Fatal(err)
	}
	c := b.find(t, id, func(runtime.Container) bool { return true })
	if c.State != runtime.Created || !c.StartedAt.IsZero() || c.CreatedAt.IsZero() {
		t.Errorf("after creation it is %+v", c)
	}
	if err := b.client.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	c = b.find(t, id, func(c runtime.Container) bool { return c.State == runtime.Running })
	if c.SandboxID != sandboxID || c.PodUID != pod.UID || c.PodName != pod.Name || c.Namespace != "default" || c.Name != "main" ||
		c.Attempt != 2 || c.StartedAt.IsZero() || !c.FinishedAt.IsZero() || c.Labels["more"] != "labels" ||
		c.Annotations["garboard.io/hash"] != "abc" || c.LogPath != filepath.Join(pod.LogDirectory, cfg.LogPath) || c.Init {
		t.Errorf("while running it is %+v", c)
	}
	if !strings.HasPrefix(c.ImageID, "docker.io/library/busybox@sha256:") {
		t.Errorf("its image is %q", c.ImageID)
	}
	if err := b.client.StartContainer(t.Context(), id); err == nil {
		t.Error("a running container was started")
	}
	if err := b.client.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	c = b.find(t, id, ended)
	if c.FinishedAt.Before(c.StartedAt) || c.ExitCode != 137 || c.Reason != "Error" {
		t.Errorf("after the kill it is %+v", c)
	}
	if err := b.client.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := b.client.StopSandbox(t.Context(), sandboxID); err != nil {
		t.Fatal(err)
	}
	sandboxes, err = b.client.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(sandboxes) != 1 || sandboxes[0].Ready || len(sandboxes[0].IPs) != 0 {
		t.Errorf("after the stop the sandbox is %+v", sandboxes)
	}
}

func testExitCode(t *testing.T, b *bench) {
	pod := b.pod(t, map[string]string{simulated.AnnotationPrefix + "exit-code.failing": "3", simulated.AnnotationPrefix + "exit-code.ending": "0"})
	sandbox := b.sandbox(t, pod)
	failing := b.start(t, sandbox, b.shell(t, "failing", "exit 3"), pod)
	ending := b.start(t, sandbox, b.shell(t, "ending", "true"), pod)
	if c := b.find(t, failing, ended); c.ExitCode != 3 || c.Reason != "Error" || c.FinishedAt.IsZero() || c.StartedAt.IsZero() {
		t.Errorf("the failing container is %+v", c)
	}
	if c := b.find(t, ending, ended); c.ExitCode != 0 || c.Reason != "Completed" {
		t.Errorf("the ending container is %+v", c)
	}
	if err := b.client.StopContainer(t.Context(), ending, time.Second); err != nil {
		t.Errorf("stopping an ended container: %v", err)
	}
}

func testInit(t *testing.T, b *bench) {
	pod := b.pod(t, nil)
	cfg := b.shell(t, "first", "true")
	cfg.Init = true
	if c := b.find(t, b.start(t, b.sandbox(t, pod), cfg, pod), ended); c.ExitCode != 0 || !c.Init {
		t.Errorf("the init container is %+v", c)
	}
}

// testForce: a process that ends when asked to ends with its own code; another one is killed when
// its grace period is over.
func testForce(t *testing.T, b *bench) {
	pod := b.pod(t, map[string]string{simulated.AnnotationPrefix + "stop-delay.deaf": "1000s"})
	sandbox := b.sandbox(t, pod)
	polite := b.start(t, sandbox, runtime.ContainerConfig{Name: "polite", Image: b.pull(t, "nginx:1.14.2"), LogPath: "polite.log"}, pod)
	deaf := b.start(t, sandbox, b.shell(t, "deaf", "sleep 1000"), pod)
	if b.real {
		// The server must have installed its signal handler.
		b.get(t, sandbox)
	}
	if err := b.client.StopContainer(t.Context(), polite, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if c := b.find(t, polite, ended); c.ExitCode != 0 {
		t.Errorf("the polite container is %+v", c)
	}
	if err := b.client.StopContainer(t.Context(), deaf, time.Second); err != nil {
		t.Fatal(err)
	}
	if c := b.find(t, deaf, ended); c.ExitCode != 137 {
		t.Errorf("the deaf container is %+v", c)
	}
}

func testStartFails(t *testing.T, b *bench) {
	pod := b.pod(t, map[string]string{simulated.AnnotationPrefix + "fail-start": "exec: no such program"})
	cfg := b.shell(t, "main", "")
	cfg.Command = []string{"/no/such/program"}
	id, err := b.client.CreateContainer(t.Context(), b.sandbox(t, pod), cfg, pod)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.client.StartContainer(t.Context(), id); err == nil || !strings.Contains(runtime.Describe(err), "rpc error: code = Unknown desc = ") {
		t.Errorf("the start did not fail as expected: %v", err)
	}
	c := b.find(t, id, ended)
	if c.ExitCode != 128 || c.Reason != "StartError" || c.Message == "" {
		t.Errorf("it is %+v", c)
	}
}

func testExec(t *testing.T, b *bench) {
	pod := b.pod(t, map[string]string{simulated.AnnotationPrefix + "exec-output": "hello\n", simulated.AnnotationPrefix + "exec-code.main": "4"})
	id := b.start(t, b.sandbox(t, pod), b.shell(t, "main", "sleep 1000"), pod)
	stdout, stderr, code, err := b.client.ExecSync(t.Context(), id, []string{"sh", "-c", "echo hello; exit 4"}, 30*time.Second)
	if err != nil || string(stdout) != "hello\n" || len(stderr) != 0 || code != 4 {
		t.Errorf("the command returned %q, %q, %d, %v", stdout, stderr, code, err)
	}
	if b.real {
		if _, _, _, err := b.client.ExecSync(t.Context(), id, []string{"sleep", "1000"}, time.Second); !errors.Is(err, runtime.ErrTimeout) {
			t.Errorf("a command that takes too long: %v", err)
		}
		if _, stderr, _, err := b.client.ExecSync(t.Context(), id, []string{"sh", "-c", "echo bad >&2"}, 0); err != nil || string(stderr) != "bad\n" {
			t.Errorf("the standard error of a command: %q, %v", stderr, err)
		}
	}
	if err := b.client.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := b.client.ExecSync(t.Context(), id, []string{"true"}, time.Second); err == nil {
		t.Error("a command ran in a container that has ended")
	}
}

func testLog(t *testing.T, b *bench) {
	pod := b.pod(t, map[string]string{simulated.AnnotationPrefix + "log": "one\ntwo", simulated.AnnotationPrefix + "exit-after": "1s"})
	id := b.start(t, b.sandbox(t, pod), b.shell(t, "main", "echo one; echo two; sleep 1"), pod)
	c := b.find(t, id, func(c runtime.Container) bool { return c.State != runtime.Created })
	running := func(ctx context.Context) (bool, error) {
		c, err := b.client.Container(ctx, id)
		return c.State == runtime.Running, err
	}
	var followed strings.Builder
	if err := containerlog.Read(t.Context(), c.LogPath, containerlog.Options{Follow: true}, running, &followed); err != nil {
		t.Fatal(err)
	}
	if followed.String() != "one\ntwo\n" {
		t.Errorf("the followed log is %q", followed.String())
	}
	b.find(t, id, ended)
	if err := b.client.RemoveContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	last := int64(1)
	var tail strings.Builder
	if err := containerlog.Read(t.Context(), c.LogPath, containerlog.Options{Tail: &last}, nil, &tail); err != nil {
		t.Fatal(err)
	}
	if tail.String() != "two\n" {
		t.Errorf("the end of the log is %q", tail.String())
	}
}

func testRemoval(t *testing.T, b *bench) {
	pod := b.pod(t, nil)
	sandbox := b.sandbox(t, pod)
	id := b.start(t, sandbox, b.shell(t, "main", "sleep 1000"), pod)
	if err := b.client.StopSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	if c := b.find(t, id, ended); c.ExitCode != 137 {
		t.Errorf("after its sandbox was stopped it is %+v", c)
	}
	if err := b.client.RemoveSandbox(t.Context(), sandbox); err != nil {
		t.Fatal(err)
	}
	containers, err := b.client.Containers(t.Context())
	if err != nil || len(containers) != 0 {
		t.Errorf("after its sandbox was removed: %+v, %v", containers, err)
	}
	sandboxes, err := b.client.Sandboxes(t.Context())
	if err != nil || len(sandboxes) != 0 {
		t.Errorf("sandboxes are %+v, %v", sandboxes, err)
	}
}

// testNames: the runtime itself refuses to create a pod or container twice.
func testNames(t *testing.T, b *bench) {
	pod := b.pod(t, nil)
	sandbox := b.sandbox(t, pod)
	if _, err := b.client.RunSandbox(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "is reserved for") {
		t.Errorf("the same sandbox twice: %v", err)
	}
	cfg := b.shell(t, "main", "sleep 1000")
	b.start(t, sandbox, cfg, pod)
	if _, err := b.client.CreateContainer(t.Context(), sandbox, cfg, pod); err == nil || !strings.Contains(err.Error(), "is reserved for") {
		t.Errorf("the same container twice: %v", err)
	}
	pod.Attempt, cfg.Attempt = 1, 1
	b.start(t, b.sandbox(t, pod), cfg, pod)
}

func testAbsent(t *testing.T, b *bench) {
	ctx := t.Context()
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, err := range map[string]error{
		"stopping a sandbox":   b.client.StopSandbox(ctx, id),
		"removing a sandbox":   b.client.RemoveSandbox(ctx, id),
		"stopping a container": b.client.StopContainer(ctx, id, time.Second),
		"removing a container": b.client.RemoveContainer(ctx, id),
		"removing an image":    b.client.RemoveImage(ctx, "nothing:at-all"),
	} {
		if err != nil {
			t.Errorf("%s that does not exist: %v", name, err)
		}
	}
	_, sandboxErr := b.client.Sandbox(ctx, id)
	_, containerErr := b.client.Container(ctx, id)
	_, _, _, execErr := b.client.ExecSync(ctx, id, []string{"true"}, time.Second)
	for name, err := range map[string]error{
		"reading a sandbox": sandboxErr, "reading a container": containerErr, "a command": execErr,
		"starting a container": b.client.StartContainer(ctx, id), "reopening a log": b.client.ReopenLog(ctx, id),
	} {
		if !errors.Is(err, runtime.ErrNotFound) {
			t.Errorf("%s that does not exist: %v", name, err)
		}
	}
}

// testOwners: an agent does not see what others created in the same runtime.
func testOwners(t *testing.T, b *bench) {
	pod := b.pod(t, nil)
	b.start(t, b.sandbox(t, pod), b.shell(t, "main", "sleep 1000"), pod)
	other := connect(t, b.client.Endpoint())
	other.Own("another-node")
	sandboxes, err := other.Sandboxes(t.Context())
	if err != nil || len(sandboxes) != 0 {
		t.Errorf("another agent sees the sandboxes %+v, %v", sandboxes, err)
	}
	containers, err := other.Containers(t.Context())
	if err != nil || len(containers) != 0 {
		t.Errorf("another agent sees the containers %+v, %v", containers, err)
	}
}

// testCrash: running containers outlive containerd, and the client reconnects to it.
func testCrash(t *testing.T, b *bench, containers *harness.Containers) {
	pod := b.pod(t, nil)
	sandbox := b.sandbox(t, pod)
	cfg := runtime.ContainerConfig{Name: "nginx", Image: b.pull(t, "nginx:1.14.2"), LogPath: "nginx_0.log"}
	id := b.start(t, sandbox, cfg, pod)
	b.get(t, sandbox)
	if running, err := containers.Running(t.Context()); err != nil || !cmp.Equal(running, map[string]int{pod.UID: 1}) {
		t.Errorf("containerd runs %v, %v", running, err)
	}
	containers.Kill(t)
	if _, err := b.client.Containers(t.Context()); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("without containerd: %v", err)
	}
	containers.Restart(t)
	for deadline := time.Now().Add(patience); ; {
		_, err := b.client.Version(t.Context())
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
	if c := b.find(t, id, func(c runtime.Container) bool { return c.State == runtime.Running }); c.SandboxID != sandbox {
		t.Errorf("the container is %+v", c)
	}
	b.get(t, sandbox)
}

// text returns the whole log of an ended container.
func (b *bench) text(t *testing.T, c runtime.Container) string {
	t.Helper()
	var out strings.Builder
	if err := containerlog.Read(t.Context(), c.LogPath, containerlog.Options{}, nil, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func testMounts(t *testing.T, b *bench) {
	if !b.real {
		return // nothing runs that could see them
	}
	pod := b.pod(t, nil)
	pod.DNS = &runtime.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"default.svc.cluster.local"}, Options: []string{"ndots:5"}}
	volume := t.TempDir()
	if err := os.WriteFile(filepath.Join(volume, "file"), []byte("from outside\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	user := int64(65534)
	cfg := b.shell(t, "main", "cat /volume/file; echo $GREETING; id; pwd; hostname; cat /etc/resolv.conf; touch /volume/forbidden || echo refused")
	cfg.Mounts = []runtime.Mount{{HostPath: volume, ContainerPath: "/volume", ReadOnly: true}}
	cfg.Env = []runtime.EnvVar{{Name: "GREETING", Value: "a b=c"}}
	cfg.WorkingDir = "/tmp"
	cfg.Security = runtime.SecurityContext{RunAsUser: &user, RunAsGroup: &user, NoNewPrivs: true, DropCapabilities: []string{"ALL"}, ReadOnlyRootFS: true}
	cfg.Resources = runtime.Resources{CPUShares: 102, CPUQuota: 20000, CPUPeriod: 100000, MemoryLimit: 64 << 20, OOMScoreAdj: 900}
	c := b.find(t, b.start(t, b.sandbox(t, pod), cfg, pod), ended)
	text := b.text(t, c)
	for _, wanted := range []string{
		"from outside\n", "a b=c\n", "uid=65534 gid=65534\n", "/tmp\n", pod.Hostname + "\n",
		"search default.svc.cluster.local\n", "nameserver 10.96.0.10\n", "options ndots:5\n", "read-only file system\n", "refused\n",
	} {
		if !strings.Contains(text, wanted) {
			t.Errorf("%q is missing in the output:\n%s", wanted, text)
		}
	}
}

func testMemory(t *testing.T, b *bench) {
	if !b.real {
		return // nothing runs that could take memory
	}
	pod := b.pod(t, nil)
	// The container starts allocating on a signal: if it is killed before the runtime watches its
	// memory, the reason is never known.
	volume := t.TempDir()
	signal := filepath.Join(volume, "signal")
	if err := syscall.Mkfifo(signal, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := b.shell(t, "main", "cat /volume/signal && fill 256")
	cfg.Mounts = []runtime.Mount{{HostPath: volume, ContainerPath: "/volume"}}
	cfg.Resources.MemoryLimit = 32 << 20
	id := b.start(t, b.sandbox(t, pod), cfg, pod)
	for deadline := time.Now().Add(patience); ; {
		begin, err := os.OpenFile(signal, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			_ = begin.Close() // The end of the container's input.
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the container does not wait for the signal: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
	// The runtime may learn the reason later than the end.
	c := b.find(t, id, func(c runtime.Container) bool { return c.State == runtime.Exited && c.Reason != "Error" })
	if c.ExitCode != 137 || c.Reason != "OOMKilled" {
		t.Errorf("beyond its memory limit it is %+v", c)
	}
}

// get requests the page of the web server in a sandbox.
func (b *bench) get(t *testing.T, sandbox string) string {
	t.Helper()
	s, err := b.client.Sandbox(t.Context(), sandbox)
	if err != nil || len(s.IPs) == 0 {
		t.Fatalf("the sandbox is %+v, %v", s, err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: patience}
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		response, err := client.Get("http://" + s.IPs[0] + "/")
		if err == nil {
			page, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			return string(page)
		}
		last = err
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("the web server does not answer: %v", last)
	return ""
}

func testNetwork(t *testing.T, b *bench) {
	if !b.real {
		return // nothing runs that could answer
	}
	pod := b.pod(t, nil)
	sandbox := b.sandbox(t, pod)
	cfg := runtime.ContainerConfig{Name: "nginx", Image: b.pull(t, "nginx:1.14.2"), UserImage: "nginx:1.14.2", LogPath: "nginx_0.log"}
	id := b.start(t, sandbox, cfg, pod)
	if page := b.get(t, sandbox); !strings.Contains(page, "Welcome to nginx!") {
		t.Errorf("the page is %q", page)
	}
	if err := b.client.StopContainer(t.Context(), id, 30*time.Second); err != nil {
		t.Fatal(err)
	}
	if text := b.text(t, b.find(t, id, ended)); !strings.Contains(text, `"GET / HTTP/1.1" 200`) {
		t.Errorf("the access log is %q", text)
	}
}
