package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/test/e2e/plane"
)

// authTimeout bounds how long the apiserver may take to authenticate a client of NATS.
const authTimeout = 8 * time.Second

// TestSeparateServices runs the four services as four processes on an etcd and a NATS of the test's
// own, and rolls out a Deployment on them.
func TestSeparateServices(t *testing.T) {
	p := separateServices(t)
	expect(t, p, "", `created`, "create", "-f", "testdata/nginx.yaml")
	expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/nginx-deployment")
	expect(t, p, "", `^nginx-deployment-\S+ +1/1 +Running .* lonely `, "get", "po", "-l", "app=nginx", "-o", "wide", "--no-headers")
	// The rollout would also have worked over HTTP alone.
	expectSoon(t, p, `garboard_publisher_messages_total\S* [1-9](.|\n)*garboard_responder_asks_total\S* [1-9]`, "get", "--raw", "/metrics")
}

// separateServices runs the four services as four processes on an etcd and a NATS of the test's
// own. Each gets the flags in addition to its own.
func separateServices(t *testing.T, flags ...string) *plane.Plane {
	t.Helper()
	return newServices(t, flags...).Plane
}

// services is a plane of separate processes.
type services struct {
	*plane.Plane
	dir, certDir, etcd, nats string
	apiserver                *process
}

func newServices(t *testing.T, flags ...string) *services {
	t.Helper()
	dir := t.TempDir()
	for _, service := range []string{"apiserver", "controllers", "scheduler", "nodeagent"} {
		plane.Build(t, dir, service)
	}
	certDir := filepath.Join(dir, "pki")
	s := &services{dir: dir, certDir: certDir, etcd: startEtcd(t, dir), nats: startNATS(t, certDir)}
	var address string
	s.Plane, s.apiserver, address = s.addApiserver(t, flags...)
	for service, user := range map[string]string{
		"controllers": "system:kube-controller-manager", "scheduler": "system:kube-scheduler", "nodeagent": "system:node:lonely",
	} {
		args := append([]string{"--kubeconfig", userConfig(t, certDir, address, user), "--nats-servers", s.nats, "--health-address", "127.0.0.1:0"}, flags...)
		if service == "nodeagent" {
			args = append(args, "--node-name", "lonely", "--runtime", "simulated", "--data-dir", filepath.Join(dir, "node"))
		}
		start(t, filepath.Join(dir, service), args...)
	}
	return s
}

// addApiserver starts an apiserver, and returns the plane as its clients see it.
func (s *services) addApiserver(t *testing.T, flags ...string) (p *plane.Plane, is *process, address string) {
	t.Helper()
	address = plane.FreeAddress(t)
	kubeconfig := filepath.Join(t.TempDir(), "admin.kubeconfig")
	is = start(t, filepath.Join(s.dir, "apiserver"), append([]string{"--listen", address, "--cert-dir", s.certDir,
		"--etcd-servers", s.etcd, "--nats-servers", s.nats, "--write-kubeconfig", kubeconfig}, flags...)...)
	p = plane.At(plane.Binary(t), s.dir, kubeconfig)
	plane.Eventually(t, "the apiserver to be ready", func(context.Context) error {
		if res := p.Kubectl(t, "", "get", "--raw", "/readyz"); res.Code != 0 {
			return errors.New(res.Stderr)
		}
		return nil
	})
	return p, is, address
}

// userConfig writes a kubeconfig with a service's bearer token, which the service also presents to
// NATS.
func userConfig(t *testing.T, certDir, address, user string) string {
	t.Helper()
	config, err := apiserver.ServiceConfig(certDir, "https://"+address, user)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthority: config.CAFile}
	kubeconfig.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	kubeconfig.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	kubeconfig.CurrentContext = "x"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kubeconfig, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// process is a running program.
type process struct {
	cmd  *exec.Cmd
	over bool
}

// start runs a program until the test ends, unless it was ended before; SIGTERM must then end it with exit code 0.
func start(t *testing.T, program string, args ...string) *process {
	t.Helper()
	var output lockedBuffer
	p := &process{cmd: exec.Command(program, args...)}
	p.cmd.Stdout, p.cmd.Stderr = &output, &output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.over {
			p.terminate(t)
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", program, output.String())
		}
	})
	return p
}

// terminate ends the program with SIGTERM and waits for its end.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.over = true
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("ending %s: %v", p.cmd.Path, err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%s ended with %v", p.cmd.Path, err)
	}
}

// kill ends the program with SIGKILL.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.over = true
	if err := p.cmd.Process.Kill(); err != nil {
		t.Errorf("killing %s: %v", p.cmd.Path, err)
	}
	_ = p.cmd.Wait() // It was killed.
}

func startEtcd(t *testing.T, dir string) string {
	t.Helper()
	config := embed.NewConfig()
	config.Dir, config.LogLevel = filepath.Join(dir, "etcd"), "panic"
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, "c.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "p.sock")}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.Name + "=" + peer.String()
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return "unix://" + client.Path
}

// startNATS runs a NATS that admits the clients that an apiserver with this certificate folder
// authenticates.
func startNATS(t *testing.T, certDir string) string {
	t.Helper()
	auth, err := apiserver.BusAuth(certDir)
	if err != nil {
		t.Fatal(err)
	}
	server, _ := runNATS(t, embedded.Config{Port: embedded.RandomPort, StoreDir: t.TempDir(), Auth: auth, AuthTimeout: authTimeout})
	return server.URL()
}

// runNATS runs a NATS until the test ends or stop is called. It returns when the server is ready.
func runNATS(t *testing.T, config embedded.Config) (server *embedded.Server, stop context.CancelFunc) {
	t.Helper()
	server, err := embedded.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("NATS ended with %v", err)
		}
	})
	if err := server.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return server, stop
}

// TestServicesRefuse checks that each main reports in one sentence what it lacks.
func TestServicesRefuse(t *testing.T) {
	dir := t.TempDir()
	for _, service := range []string{"apiserver", "controllers", "scheduler", "nodeagent"} {
		binary := plane.Build(t, dir, service)
		code, stderr := run(t, binary, "--colour")
		if code != 1 || !strings.HasPrefix(stderr, "error: unknown flag: --colour") {
			t.Errorf("%s with an unknown flag: exit code %d, %s", service, code, stderr)
		}
		if service == "apiserver" {
			continue
		}
		code, stderr = run(t, binary, "--kubeconfig", filepath.Join(dir, "none"))
		if code != 1 || !strings.HasPrefix(stderr, "error: ") || !strings.Contains(stderr, "kubeconfig") {
			t.Errorf("%s without a kubeconfig: exit code %d, %s", service, code, stderr)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	code, stderr := run(t, filepath.Join(dir, "apiserver"), "--cert-dir", filepath.Join(file, "pki"), "--listen", "127.0.0.1:0")
	if code != 1 || !strings.Contains(stderr, file) {
		t.Errorf("apiserver without a folder for its certificates: exit code %d, %s", code, stderr)
	}
}

// lockedBuffer collects a process's output.
type lockedBuffer struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.data.String()
}
