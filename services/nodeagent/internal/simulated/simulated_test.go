package simulated

import (
	"context"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serveVariable makes this test program a runtime on the directory that it names, to be killed.
const serveVariable = "GARBOARD_TEST_SIMULATED_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serveVariable); dir != "" {
		server, err := New(config(dir))
		if err == nil {
			err = server.Run(context.Background())
		}
		slog.Error("serving", "err", err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

func config(dir string) Config {
	return Config{Dir: dir, PodCIDR: netip.MustParsePrefix("10.9.0.0/29")}
}

func create(t *testing.T, cfg Config) *Runtime {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pod(uid string, annotations map[string]string) *cri.PodSandboxConfig {
	return &cri.PodSandboxConfig{
		Metadata:    &cri.PodSandboxMetadata{Name: "pod-" + uid, Namespace: "default", Uid: uid},
		Labels:      map[string]string{runtime.LabelPodUID: uid},
		Annotations: annotations,
	}
}

// start creates a pod with one container and starts it.
func start(t *testing.T, r *Runtime, config *cri.PodSandboxConfig) (sandbox, container string) {
	t.Helper()
	made, err := r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.PullImage(t.Context(), &cri.PullImageRequest{Image: &cri.ImageSpec{Image: "nginx"}}); err != nil {
		t.Fatal(err)
	}
	created, err := r.CreateContainer(t.Context(), &cri.CreateContainerRequest{
		PodSandboxId: made.GetPodSandboxId(), SandboxConfig: config,
		Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: "main"}, Image: &cri.ImageSpec{Image: "nginx"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.StartContainer(t.Context(), &cri.StartContainerRequest{ContainerId: created.GetContainerId()}); err != nil {
		t.Fatal(err)
	}
	return made.GetPodSandboxId(), created.GetContainerId()
}

func containerStatus(t *testing.T, r *Runtime, id string) *cri.ContainerStatus {
	t.Helper()
	answer, err := r.ContainerStatus(t.Context(), &cri.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetStatus()
}

// TestKill: containers survive when the process is killed, as those of a real runtime survive the
// node agent.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// begin starts a process and returns the function that kills it.
	begin := func() func() {
		command := exec.Command(program)
		command.Env = append(os.Environ(), serveVariable+"="+dir)
		command.Stderr = os.Stderr
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = command.Process.Kill()
			_ = command.Wait() // it was killed
		}
	}
	connect := func() *runtime.Client {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		client, err := runtime.Connect(ctx, filepath.Join(dir, "cri.sock"), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
	kill := begin()
	client := connect()
	pod := runtime.SandboxConfig{Name: "web", Namespace: "default", UID: "uid", LogDirectory: t.TempDir(),
		Annotations: map[string]string{AnnotationPrefix + "exit-after.ending": "1ms", AnnotationPrefix + "exit-code.ending": "5"}}
	sandbox, err := client.RunSandbox(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := client.PullImage(t.Context(), "nginx:1.14.2", runtime.Auth{}, runtime.SandboxConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"staying", "ending", "created"} {
		id, err := client.CreateContainer(t.Context(), sandbox, runtime.ContainerConfig{Name: name, Image: ref, LogPath: name}, pod)
		if err != nil {
			t.Fatal(err)
		}
		if name == "created" {
			continue
		}
		if err := client.StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	before, err := client.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kill()
	if err := client.Close(); err != nil {
		t.Error(err)
	}

	defer begin()()
	client = connect()
	defer func() { _ = client.Close() }()
	after, err := client.Sandboxes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(after) != 1 || after[0].ID != before[0].ID || after[0].IPs[0] != before[0].IPs[0] || !after[0].Ready ||
		!after[0].CreatedAt.Equal(before[0].CreatedAt) {
		t.Errorf("the sandbox changed from %+v to %+v", before, after)
	}
	states := map[string]runtime.ContainerState{}
	containers, err := client.Containers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range containers {
		states[c.Name] = c.State
		if c.Name == "ending" && (c.ExitCode != 5 || c.FinishedAt.Sub(c.StartedAt) != time.Millisecond) {
			t.Errorf("the ended container is %+v", c)
		}
	}
	if len(states) != 3 || states["staying"] != runtime.Running || states["ending"] != runtime.Exited || states["created"] != runtime.Created {
		t.Errorf("the containers are %v", states)
	}
	if image, err := client.ImageStatus(t.Context(), "nginx:1.14.2"); err != nil || image.ID != ref {
		t.Errorf("the image is %+v, %v", image, err)
	}
	if _, err := client.RunSandbox(t.Context(), pod); err == nil {
		t.Error("the pod was created twice")
	}
	pod.UID = "other"
	other, err := client.RunSandbox(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := client.Sandbox(t.Context(), other); err != nil || s.IPs[0] == before[0].IPs[0] {
		t.Errorf("the address of an earlier pod was assigned again: %+v, %v", s, err)
	}
}

func TestBehaviour(t *testing.T) {
	for _, test := range []struct {
		name        string
		cfg         Config
		annotations map[string]string
		// The state after a second and after a minute, with the exit code.
		second, minute cri.ContainerState
		code           int32
	}{
		{"runs for ever", Config{}, nil, cri.ContainerState_CONTAINER_RUNNING, cri.ContainerState_CONTAINER_RUNNING, 0},
		{"configured to end", Config{RunFor: 10 * time.Second, ExitCode: 7}, nil, cri.ContainerState_CONTAINER_RUNNING, cri.ContainerState_CONTAINER_EXITED, 7},
		{"ends later", Config{}, map[string]string{keyExitAfter: "10s"}, cri.ContainerState_CONTAINER_RUNNING, cri.ContainerState_CONTAINER_EXITED, 0},
		{"ends at once", Config{}, map[string]string{keyExitCode: "3"}, cri.ContainerState_CONTAINER_EXITED, cri.ContainerState_CONTAINER_EXITED, 3},
		{"for one container", Config{}, map[string]string{keyExitCode: "3", keyExitCode + ".main": "4"}, cri.ContainerState_CONTAINER_EXITED, cri.ContainerState_CONTAINER_EXITED, 4},
		{"for another container", Config{}, map[string]string{keyExitCode + ".other": "4"}, cri.ContainerState_CONTAINER_RUNNING, cri.ContainerState_CONTAINER_RUNNING, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test.cfg.Dir, test.cfg.PodCIDR = t.TempDir(), config("").PodCIDR
				r := create(t, test.cfg)
				annotations := map[string]string{}
				for key, value := range test.annotations {
					annotations[AnnotationPrefix+key] = value
				}
				began := time.Now()
				_, id := start(t, r, pod("uid", annotations))
				time.Sleep(time.Second)
				if got := containerStatus(t, r, id); got.GetState() != test.second {
					t.Errorf("after a second it is %v", got)
				}
				time.Sleep(time.Minute)
				got := containerStatus(t, r, id)
				if got.GetState() != test.minute || got.GetExitCode() != test.code {
					t.Errorf("after a minute it is %v", got)
				}
				if got.GetState() == cri.ContainerState_CONTAINER_EXITED && time.Unix(0, got.GetFinishedAt()).Sub(began) > 10*time.Second {
					t.Errorf("it ended when it was read, not when it was due: %v", got)
				}
			})
		})
	}
}

func TestStartDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := create(t, config(t.TempDir()))
		began := time.Now()
		start(t, r, pod("uid", map[string]string{AnnotationPrefix + keyStartDelay: "3s"}))
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("the start took %v", took)
		}
	})
}

func TestFailures(t *testing.T) {
	r := create(t, config(t.TempDir()))
	image := &cri.ImageSpec{Image: "nginx"}
	_, err := r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: pod("a", map[string]string{AnnotationPrefix + keyFailSandbox: "no network"})})
	expect(t, err, "code = Unknown desc = no network")
	_, err = r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: pod("", nil)})
	expect(t, err, "no name or uid")
	_, err = r.PullImage(t.Context(), &cri.PullImageRequest{Image: &cri.ImageSpec{Image: "nginx", Annotations: map[string]string{AnnotationPrefix + keyFailPull: "no such tag"}}})
	expect(t, err, `failed to pull and unpack image "docker.io/library/nginx:latest": no such tag`)
	_, err = r.PullImage(t.Context(), &cri.PullImageRequest{Image: &cri.ImageSpec{Image: "Nginx"}})
	expect(t, err, "failed to parse image reference")

	made, err := r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: pod("b", map[string]string{
		AnnotationPrefix + keyFailCreate + ".broken": "cannot mount", AnnotationPrefix + keyExitCode + ".odd": "300",
	})})
	if err != nil {
		t.Fatal(err)
	}
	createNamed := func(name string) error {
		_, err := r.CreateContainer(t.Context(), &cri.CreateContainerRequest{
			PodSandboxId: made.GetPodSandboxId(), Config: &cri.ContainerConfig{Metadata: &cri.ContainerMetadata{Name: name}, Image: image},
		})
		return err
	}
	expect(t, createNamed("main"), `failed to resolve image "nginx": not found`)
	if _, err := r.PullImage(t.Context(), &cri.PullImageRequest{Image: image}); err != nil {
		t.Fatal(err)
	}
	expect(t, createNamed("broken"), "cannot mount")
	expect(t, createNamed("odd"), `exit-code is "300", not a number from 0 to 255`)
	expect(t, createNamed(""), "no name")
}

func expect(t *testing.T, err error, words string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v, want %q", err, words)
	}
}

// TestAddresses: the range is used to its end, and no address twice at the same time.
func TestAddresses(t *testing.T) {
	r := create(t, config(t.TempDir()))
	address := func(id string) string {
		answer, err := r.PodSandboxStatus(t.Context(), &cri.PodSandboxStatusRequest{PodSandboxId: id})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetStatus().GetNetwork().GetIp()
	}
	seen := map[string]string{}
	for _, uid := range []string{"a", "b", "c", "d", "e"} { // 10.9.0.2 to .6 of .0 to .7
		made, err := r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: pod(uid, nil)})
		if err != nil {
			t.Fatal(err)
		}
		seen[address(made.GetPodSandboxId())] = made.GetPodSandboxId()
	}
	if len(seen) != 5 || seen["10.9.0.2"] == "" || seen["10.9.0.6"] == "" {
		t.Errorf("the addresses are %v", seen)
	}
	_, err := r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: pod("f", nil)})
	expect(t, err, "no IP addresses available in range 10.9.0.0/29")
	if _, err := r.StopPodSandbox(t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: seen["10.9.0.4"]}); err != nil {
		t.Fatal(err)
	}
	made, err := r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: pod("f", nil)})
	if err != nil {
		t.Fatal(err)
	}
	if got := address(made.GetPodSandboxId()); got != "10.9.0.4" {
		t.Errorf("the released address is not used: %s", got)
	}
	host := pod("host", nil)
	host.Linux = &cri.LinuxPodSandboxConfig{SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: &cri.NamespaceOption{Network: cri.NamespaceMode_NODE}}}
	made, err = r.RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: host})
	if err != nil || address(made.GetPodSandboxId()) != "" {
		t.Errorf("a pod on the host's network: %v, %v", made, err)
	}
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Config{Dir: "relative", PodCIDR: config("").PodCIDR})
	expect(t, err, "is not an absolute path")
	_, err = New(Config{Dir: t.TempDir(), PodCIDR: netip.MustParsePrefix("10.0.0.0/31")})
	expect(t, err, "is not a range of at least four addresses")
	dir := t.TempDir()
	create(t, config(dir))
	damaged := filepath.Join(dir, sandboxFolder, "x.json")
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = New(config(dir))
	expect(t, err, "the state in "+damaged+" is damaged")
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	first, second := create(t, config(dir)), create(t, config(dir))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- first.Run(ctx) }()
	client, err := runtime.Connect(t.Context(), first.Endpoint(), nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, second.Run(t.Context()), "another runtime serves")
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestPodsOfJobs checks that what the command says decides whether a container of a Job's pod ends, unless
// an annotation does, and that other pods stay.
func TestPodsOfJobs(t *testing.T) {
	for _, tt := range []struct {
		name, label, image string
		command, args      []string
		annotations        map[string]string
		ends               bool
		code               int32
	}{
		{name: "a script", label: "j", command: []string{"/bin/sh", "-c"}, args: []string{"exit 1"}, ends: true},
		{name: "an image's own command", label: "j", image: "nginx", ends: true},
		{name: "sleep", label: "j", command: []string{"/bin/sleep", "10"}},
		{name: "a script that sleeps", label: "j", command: []string{"sh", "-c", "sleep 10; exit 3"}},
		{name: "the image pause", label: "j", image: "registry.example.com:5000/pause:3.10@sha256:00"},
		{name: "an image that only begins with it", label: "j", image: "pauses:1", ends: true},
		{name: "no Job", command: []string{"true"}},
		{
			name: "an annotation", label: "j", command: []string{"sleep", "10"}, ends: true, code: 3,
			annotations: map[string]string{AnnotationPrefix + "exit-code": "3"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			sandbox := &cri.PodSandboxConfig{Annotations: tt.annotations}
			if tt.label != "" {
				sandbox.Labels = map[string]string{"batch.kubernetes.io/job-name": tt.label}
			}
			b, err := Config{}.behaviourOf(sandbox, &cri.ContainerConfig{
				Metadata: &cri.ContainerMetadata{Name: "c"}, Command: tt.command, Args: tt.args,
				Image: &cri.ImageSpec{Image: "sha256:1", UserSpecifiedImage: tt.image},
			})
			if err != nil {
				t.Fatal(err)
			}
			if b.exits != tt.ends || b.exits && b.exitCode != tt.code {
				t.Errorf("it ends: %v with code %d, want %v, %d", b.exits, b.exitCode, tt.ends, tt.code)
			}
		})
	}
}
