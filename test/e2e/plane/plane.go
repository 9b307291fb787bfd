// Package plane runs Garboard as a process, as a user does, and drives it with kubectl.
package plane

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard/garboard/test/containers/harness"
)

// Patience bounds every wait. It is far longer than anything takes on a slow machine: a test that
// waits this long waits for something that never happens.
const Patience = 3 * time.Minute

// Plane is a running `garboard up`.
type Plane struct {
	// DataDir is the process's --data-dir.
	DataDir string

	binary     string
	kubeconfig string // if empty, the one in DataDir
	args       []string
	env        []string
	cmd        *exec.Cmd
	output     *buffer
	exited     chan struct{}
	err        error // set before exited is closed
}

// Binary returns the path of the garboard program: GARBOARD_BINARY if set, else bin/garboard, which
// it builds with make.
func Binary(t testing.TB) string {
	t.Helper()
	if binary := os.Getenv("GARBOARD_BINARY"); binary != "" {
		return binary
	}
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatalf("finding the module: %v", err)
	}
	root := strings.TrimSpace(string(module))
	if output, err := exec.CommandContext(t.Context(), "make", "-C", root, "bin/garboard").CombinedOutput(); err != nil {
		t.Fatalf("building cmd/garboard: %v\n%s", err, output)
	}
	return filepath.Join(root, "bin", "garboard")
}

// Build compiles a command of this module into dir and returns the program's path. Like make, it
// disables cgo, so that the Go build cache already holds the packages.
func Build(t testing.TB, dir, command string) string {
	t.Helper()
	program := filepath.Join(dir, command)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/garboard/garboard/cmd/"+command)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building cmd/%s: %v\n%s", command, err, output)
	}
	return program
}

// Start runs `garboard up` with a data folder of the test's own and waits until it is ready. The
// end of the test stops it.
func Start(t testing.TB, binary string, args ...string) *Plane {
	t.Helper()
	p := &Plane{DataDir: t.TempDir(), binary: binary, args: args}
	t.Cleanup(func() {
		p.Kill()
		if err := harness.Unmount(p.DataDir); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the plane's output:\n%s", p.output.tail(20_000))
		}
	})
	p.Restart(t)
	return p
}

// Restart starts the process on its existing data and waits until it is ready.
func (p *Plane) Restart(t testing.TB) {
	t.Helper()
	args := append([]string{"up", "--data-dir", p.DataDir, "--listen", "127.0.0.1:0", "--pod-network=false", "--service-proxy=false", "--dns=false"}, p.args...)
	if p.output == nil {
		p.output = &buffer{}
	}
	ready := filepath.Join(p.DataDir, "admin.kubeconfig")
	_ = os.Remove(ready)
	// The process must not die with the test's context, which ends before Cleanup.
	p.cmd = exec.Command(p.binary, args...)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	p.cmd.Env = append(os.Environ(), p.env...)
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", p.binary, err)
	}
	exited := make(chan struct{})
	p.exited = exited
	go func() {
		p.err = p.cmd.Wait()
		close(exited)
	}()
	Eventually(t, "the plane to be ready", func(ctx context.Context) error {
		select {
		case <-exited:
			t.Fatalf("the plane exited during its start: %v\n%s", p.err, p.output.tail(20_000))
		default:
		}
		if !strings.Contains(p.output.sinceMark(), "Garboard is up") {
			return errors.New("it has not reported that it is up")
		}
		_, err := os.Stat(ready)
		return err
	})
	p.output.mark()
}

// At returns a plane that another process runs, for use with kubectl.
func At(binary, dataDir, kubeconfig string) *Plane {
	return &Plane{DataDir: dataDir, binary: binary, kubeconfig: kubeconfig}
}

// As returns the plane as seen by the user of the kubeconfig at the path.
func (p *Plane) As(kubeconfig string) *Plane { return At(p.binary, p.DataDir, kubeconfig) }

// WithToken returns the plane as seen by a user who has a bearer token and nothing else.
func (p *Plane) WithToken(t testing.TB, token string) *Plane {
	t.Helper()
	config, err := clientcmd.LoadFromFile(p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		*user = api.AuthInfo{Token: token}
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return At(p.binary, p.DataDir, path)
}

// Kubeconfig returns the path of the administrator's kubeconfig.
func (p *Plane) Kubeconfig() string {
	if p.kubeconfig != "" {
		return p.kubeconfig
	}
	return filepath.Join(p.DataDir, "admin.kubeconfig")
}

// Etcd returns the endpoint of the embedded etcd.
func (p *Plane) Etcd() string { return "unix://" + filepath.Join(p.DataDir, "sockets", "client.sock") }

// PID returns the ID of the process.
func (p *Plane) PID() int { return p.cmd.Process.Pid }

// Output returns what the process has printed.
func (p *Plane) Output() string { return p.output.tail(1 << 30) }

// Kill kills the process with SIGKILL and waits until it is gone.
func (p *Plane) Kill() {
	if p.cmd == nil || p.cmd.Process == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// Interrupt sends SIGINT, waits for the process and returns its exit code.
func (p *Plane) Interrupt(t testing.TB) int {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatalf("interrupting the plane: %v", err)
	}
	select {
	case <-p.exited:
	case <-time.After(Patience):
		t.Fatalf("the plane did not end after SIGINT")
	}
	return p.cmd.ProcessState.ExitCode()
}

// Result is the output and the exit code of a command.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Kubectl runs kubectl with stdin and waits for it.
func (p *Plane) Kubectl(t testing.TB, stdin string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := p.Command(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("kubectl %s: %v", strings.Join(args, " "), err)
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
}

// Command returns a kubectl command against the plane. KUBECTL names another kubectl than the
// built-in one.
func (p *Plane) Command(ctx context.Context, args ...string) *exec.Cmd {
	name, arguments := p.binary, append([]string{"kubectl"}, args...)
	if kubectl := os.Getenv("KUBECTL"); kubectl != "" {
		name, arguments = kubectl, args
	}
	cmd := exec.CommandContext(ctx, name, arguments...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig(), "HOME="+p.DataDir, "KUBECTL_KUBERC=false")
	return cmd
}

// Garboard runs another command of the program.
func (p *Plane) Garboard(t testing.TB, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, p.binary, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig())
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("garboard %s: %v", strings.Join(args, " "), err)
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}
}

// Must runs kubectl, fails the test unless it succeeds, and returns its output.
func (p *Plane) Must(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	res := p.Kubectl(t, stdin, args...)
	if res.Code != 0 {
		t.Fatalf("kubectl %s: exit code %d\n%s%s", strings.Join(args, " "), res.Code, res.Stdout, res.Stderr)
	}
	return res.Stdout
}

// Eventually polls is until it returns nil, and fails the test after Patience.
func Eventually(t testing.TB, what string, is func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := is(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited %v for %s: %v", Patience, what, err)
		case <-tick.C:
		}
	}
}

// buffer collects a process's output.
type buffer struct {
	mu     sync.Mutex
	data   bytes.Buffer
	marked int
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *buffer) mark() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.marked = b.data.Len()
}

func (b *buffer) sinceMark() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.data.Bytes()[b.marked:])
}

func (b *buffer) tail(n int) string {
	if b == nil {
		return "nothing: it did not start"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	data := b.data.Bytes()
	if len(data) > n {
		data = data[len(data)-n:]
	}
	return string(data)
}
