// Package services runs a plane whose services are processes of their own, on one machine, for tests.
package services

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard/garboard/services/apiserver"
	chaos "github.com/garboard/garboard/test/chaos/plane"
	"github.com/garboard/garboard/test/e2e/plane"
)

// own is the path of this module's packages.
const own = "github.com/garboard/garboard/"

// natsConfig is the configuration of NATS. The apiserver writes the included file, by which NATS asks
// it to authenticate clients.
const natsConfig = `server_name: nats
listen: %q
jetstream { store_dir: %q }
no_fast_producer_stall: true
include %q
`

// Names returns what a plane consists of, in the order of their start. The apiserver writes what NATS
// needs.
func Names() []string {
	return []string{"etcd", "apiserver", "nats-server", "controllers", "scheduler", "nodeagent"}
}

// Node is the name of the plane's one node.
const Node = "lonely"

// Services is a plane whose services are processes.
type Services struct {
	*plane.Plane
	// Dir has the programs, keys and data.
	Dir string
	// Etcd and NATS are where they listen, HOST:PORT.
	Etcd, NATS string

	server    string
	processes map[string]*chaos.Process
	ready     map[string]func(ctx context.Context) error
}

// Start starts a plane with one node, whose agent gets further flags. The end of the test stops it.
func Start(t testing.TB, agent ...string) *Services {
	t.Helper()
	dir := t.TempDir()
	s := &Services{
		Dir: dir, server: plane.FreeAddress(t), NATS: plane.FreeAddress(t), Etcd: plane.FreeAddress(t),
		processes: map[string]*chaos.Process{}, ready: map[string]func(context.Context) error{},
	}
	s.Plane = plane.At(plane.Binary(t), dir, filepath.Join(dir, "admin.kubeconfig"))
	certs := filepath.Join(dir, "pki")
	s.Compile(t, own+"cmd/apiserver", own+"cmd/controllers", own+"cmd/scheduler", own+"cmd/nodeagent",
		own+"bench/apiserver/etcd", "github.com/nats-io/nats-server/v2")
	s.declare("etcd", s.stores, "-dir", filepath.Join(dir, "data"), "-listen", "http://"+s.Etcd)
	s.declare("apiserver", s.serves, "--listen", s.server, "--cert-dir", certs, "--etcd-servers", "http://"+s.Etcd,
		"--nats-servers", "nats://"+s.NATS, "--write-kubeconfig", s.Kubeconfig())
	s.declare("nats-server", func(ctx context.Context) error { return listens(ctx, s.NATS) }, "-c", filepath.Join(dir, "nats.conf"))
	config := fmt.Sprintf(natsConfig, s.NATS, filepath.Join(dir, "nats"), "pki/nats-auth.conf")
	if err := os.WriteFile(filepath.Join(dir, "nats.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.stop(t) })
	for _, service := range Names() {
		if s.processes[service] == nil {
			s.client(t, service, certs, agent)
		}
		s.begin(t, service)
	}
	return s
}

// Compile builds programs into the plane's folder.
func (s *Services) Compile(t testing.TB, packages ...string) {
	t.Helper()
	build := exec.CommandContext(t.Context(), "go", append([]string{"build", "-ldflags=-s -w", "-o", s.Dir + "/"}, packages...)...)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %v: %v\n%s", packages, err, output)
	}
}

// declare adds a process that can be started.
func (s *Services) declare(name string, ready func(ctx context.Context) error, args ...string) {
	s.processes[name] = chaos.NewProcess(name, s.Dir, append([]string{filepath.Join(s.Dir, name)}, args...), nil)
	s.ready[name] = ready
}

// client adds one of the services that are clients of the apiserver. It presents a bearer token.
func (s *Services) client(t testing.TB, service, certs string, agent []string) {
	t.Helper()
	users := map[string]string{
		"controllers": "system:kube-controller-manager", "scheduler": "system:kube-scheduler", "nodeagent": "system:node:" + Node,
	}
	config, err := apiserver.ServiceConfig(certs, "https://"+s.server, users[service])
	if err != nil {
		t.Fatal(err)
	}
	health := plane.FreeAddress(t)
	args := []string{
		"--kubeconfig", s.KubeconfigOf(t, service, config.CAFile, config.BearerToken), "--nats-servers", "nats://" + s.NATS,
		"--health-address", health,
	}
	if service == "nodeagent" {
		args = append(append(args, "--node-name", Node), agent...)
	}
	s.declare(service, func(ctx context.Context) error { return healthy(ctx, "http://"+health+"/readyz") }, args...)
}

// KubeconfigOf writes the kubeconfig of a user with a bearer token, and returns its path.
func (s *Services) KubeconfigOf(t testing.TB, name, ca, token string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://" + s.server, CertificateAuthority: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(s.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// begin starts a service and waits until it is ready.
func (s *Services) begin(t testing.TB, service string) {
	t.Helper()
	if err := s.processes[service].Start(); err != nil {
		t.Fatal(err)
	}
	plane.Eventually(t, service+" to be ready", func(ctx context.Context) error {
		if err := s.processes[service].Died(); err != nil {
			t.Fatalf("%v\n%s", err, s.Log(service))
		}
		return s.ready[service](ctx)
	})
}

// Restart ends a service and starts it again.
func (s *Services) Restart(t testing.TB, service string) {
	t.Helper()
	s.processes[service].Stop()
	s.begin(t, service)
}

// PID returns the number of a service's process.
func (s *Services) PID(service string) int { return s.processes[service].PID() }

// stop ends everything in the reverse order. If the test has failed, it shows what each printed last.
func (s *Services) stop(t testing.TB) {
	for _, name := range slices.Backward(Names()) {
		if process := s.processes[name]; process != nil {
			process.Stop()
		}
	}
	if !t.Failed() {
		return
	}
	for _, name := range Names() {
		t.Logf("%s printed at last:\n%s", name, s.Log(name))
	}
}

// Log returns the end of what a process in the plane's folder has printed.
func (s *Services) Log(name string) string {
	const most = 20_000
	data, err := os.ReadFile(filepath.Join(s.Dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

// stores returns an error unless etcd listens and, if there is an apiserver, that one reaches it.
func (s *Services) stores(ctx context.Context) error {
	if err := listens(ctx, s.Etcd); err != nil {
		return err
	}
	if _, err := os.Stat(s.Kubeconfig()); err != nil {
		return nil // It has not started yet.
	}
	return s.serves(ctx)
}

func (s *Services) serves(ctx context.Context) error {
	if _, err := os.Stat(s.Kubeconfig()); err != nil {
		return err
	}
	out, err := s.Command(ctx, "get", "--raw", "/readyz").CombinedOutput()
	if err != nil {
		return errors.New(string(out))
	}
	return nil
}

func listens(ctx context.Context, address string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

func healthy(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}
