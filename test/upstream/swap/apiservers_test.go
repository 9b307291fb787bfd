package swap

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// patience is how long an apiserver may take to start or to end on a busy machine.
const patience = 3 * time.Minute

// kubeApiserver is what tests call Kubernetes' apiserver.
const kubeApiserver = "kube-apiserver"

// server is an apiserver. It starts and stops on an etcd that is not its own.
type server interface {
	// name is what tests call it.
	name() string
	// start returns when it is ready, with its administrator's configuration.
	start() *rest.Config
	stop()
}

// ours is the project's apiserver.
type ours struct{ *harness.Server }

func (o ours) name() string { return "garboard" }

func (o ours) start() *rest.Config {
	o.Start()
	return o.Admin()
}

func (o ours) stop() { o.Stop() }

// theirs is a kube-apiserver that takes its keys from the directory of ours.
type theirs struct {
	t       *testing.T
	ours    *harness.Server
	program string
	running *exec.Cmd
	ended   chan error
}

func (k *theirs) name() string { return kubeApiserver }

func (k *theirs) start() *rest.Config {
	k.t.Helper()
	port := freePort(k.t)
	in := func(name string) string { return filepath.Join(k.ours.CertDir, name) }
	k.running = exec.Command(k.program, // It is stopped by a signal, and waited for.
		"--etcd-servers="+strings.Join(k.ours.Etcd, ","),
		"--bind-address=127.0.0.1", "--advertise-address=192.0.2.1", "--secure-port="+port,
		"--client-ca-file="+in("ca.crt"), "--tls-cert-file="+in("apiserver.crt"), "--tls-private-key-file="+in("apiserver.key"),
		"--service-account-key-file="+k.publicKey(), "--service-account-signing-key-file="+in("sa.key"),
		"--service-account-issuer="+apiserver.DefaultIssuer, "--service-cluster-ip-range="+apiserver.DefaultServiceCIDR,
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged", "--profiling=false")
	log := &tail{}
	k.running.Stdout, k.running.Stderr = log, log
	if err := k.running.Start(); err != nil {
		k.t.Fatal(err)
	}
	k.ended = make(chan error, 1)
	go func() { k.ended <- k.running.Wait() }()
	k.t.Cleanup(k.stop)
	k.ours.URL = "https://127.0.0.1:" + port
	config := k.ours.Admin()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		k.t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	deadline := time.After(patience)
	for {
		select {
		case err := <-k.ended:
			k.ended <- err
			k.t.Fatalf("kube-apiserver ended with %v:\n%s", err, log)
		case <-deadline:
			k.t.Fatalf("kube-apiserver does not become ready:\n%s", log)
		case <-time.After(100 * time.Millisecond):
		}
		if response, err := client.Get(config.Host + "/readyz"); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == 200 {
				return config
			}
		}
	}
}

func (k *theirs) stop() {
	k.t.Helper()
	if k.running == nil {
		return
	}
	_ = k.running.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-k.ended:
		if err != nil {
			k.t.Errorf("kube-apiserver ended with %v", err)
		}
	case <-time.After(patience):
		_ = k.running.Process.Kill()
		<-k.ended
		k.t.Error("kube-apiserver does not stop")
	}
	k.running = nil
}

// publicKey returns a file with the public key of service account tokens, since kube-apiserver finds none in a
// private key of PKCS #8.
func (k *theirs) publicKey() string {
	k.t.Helper()
	private, err := pki.ReadKey(filepath.Join(k.ours.CertDir, "sa.key"), "the test ends")
	if err != nil {
		k.t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		k.t.Fatal(err)
	}
	file := filepath.Join(k.t.TempDir(), "sa.pub")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600); err != nil {
		k.t.Fatal(err)
	}
	return file
}

// freePort returns a port of 127.0.0.1 that was free a moment ago: kube-apiserver takes no listener.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// tail keeps the end of a log.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// maxTail bounds what is kept, in bytes.
const maxTail = 16 << 10

// Write appends to the log.
func (l *tail) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, data...)
	l.text = l.text[max(0, len(l.text)-maxTail):]
	return len(data), nil
}

func (l *tail) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}

// build returns the path of kube-apiserver, of the version in go.mod.
func build(t *testing.T) string {
	t.Helper()
	program, err := filepath.Abs("../../../bin/.upstream/kube-apiserver")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	version, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes").Output()
	if err != nil {
		t.Fatalf("finding Kubernetes' version: %v", err)
	}
	const stamp = "k8s.io/component-base/version."
	flags := fmt.Sprintf("-ldflags=-s -w -X %sgitVersion=%s -X %sgitTreeState=clean", stamp, strings.TrimSpace(string(version)), stamp)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, flags, "k8s.io/kubernetes/cmd/kube-apiserver")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building kube-apiserver: %v\n%s", err, out)
	}
	return program
}
