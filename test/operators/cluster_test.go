//go:build operators

package operators

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
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

// services are what a plane consists of, in the order of their start. The apiserver writes what NATS
// needs.
func services() []string {
	return []string{"etcd", "apiserver", "nats-server", "controllers", "scheduler", "nodeagent"}
}

// cluster is a plane whose services are processes, and the operator that works on it.
type cluster struct {
	*plane.Plane

	dir, server, nats string
	etcd              string
	processes         map[string]*chaos.Process
	ready             map[string]func(ctx context.Context) error
	operator          *chaos.Process
	ends              int // how often the operator has ended by itself
}

// start starts a plane with one simulated node. The end of the test stops it.
func start(t *testing.T) *cluster {
	t.Helper()
	dir := t.TempDir()
	c := &cluster{
		dir: dir, server: plane.FreeAddress(t), nats: plane.FreeAddress(t),
		processes: map[string]*chaos.Process{}, ready: map[string]func(context.Context) error{},
	}
	c.Plane = plane.At(plane.Binary(t), dir, filepath.Join(dir, "admin.kubeconfig"))
	etcd, certs := plane.FreeAddress(t), filepath.Join(dir, "pki")
	c.etcd = etcd
	compile(t, dir, own+"cmd/apiserver", own+"cmd/controllers", own+"cmd/scheduler", own+"cmd/nodeagent",
		own+"bench/apiserver/etcd", "github.com/nats-io/nats-server/v2")
	c.declare("etcd", func(ctx context.Context) error { return c.stores(ctx, etcd) },
		"-dir", filepath.Join(dir, "data"), "-listen", "http://"+etcd)
	c.declare("apiserver", c.serves, "--listen", c.server, "--cert-dir", certs, "--etcd-servers", "http://"+etcd,
		"--nats-servers", "nats://"+c.nats, "--write-kubeconfig", c.Kubeconfig())
	c.declare("nats-server", func(ctx context.Context) error { return listens(ctx, c.nats) }, "-c", filepath.Join(dir, "nats.conf"))
	config := fmt.Sprintf(natsConfig, c.nats, filepath.Join(dir, "nats"), "pki/nats-auth.conf")
	if err := os.WriteFile(filepath.Join(dir, "nats.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop(t) })
	for _, service := range services() {
		if c.processes[service] == nil {
			c.client(t, service, certs)
		}
		c.begin(t, service)
	}
	return c
}

// declare adds a process that can be started.
func (c *cluster) declare(name string, ready func(ctx context.Context) error, args ...string) {
	c.processes[name] = chaos.NewProcess(name, c.dir, append([]string{filepath.Join(c.dir, name)}, args...), nil)
	c.ready[name] = ready
}

// client adds one of the services that are clients of the apiserver. It presents a bearer token.
func (c *cluster) client(t *testing.T, service, certs string) {
	t.Helper()
	users := map[string]string{
		"controllers": "system:kube-controller-manager", "scheduler": "system:kube-scheduler", "nodeagent": "system:node:lonely",
	}
	config, err := apiserver.ServiceConfig(certs, "https://"+c.server, users[service])
	if err != nil {
		t.Fatal(err)
	}
	health := plane.FreeAddress(t)
	args := []string{
		"--kubeconfig", c.kubeconfigOf(t, service, config.CAFile, config.BearerToken), "--nats-servers", "nats://" + c.nats,
		"--health-address", health,
	}
	if service == "nodeagent" {
		args = append(args, "--node-name", "lonely", "--runtime", "simulated", "--data-dir", filepath.Join(c.dir, "node"), "--listen", ":"+freePort(t))
	}
	c.declare(service, func(ctx context.Context) error { return healthy(ctx, "http://"+health+"/readyz") }, args...)
}

// kubeconfigOf writes the kubeconfig of a user with a bearer token, and returns its path.
func (c *cluster) kubeconfigOf(t *testing.T, name, ca, token string) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://" + c.server, CertificateAuthority: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	path := filepath.Join(c.dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// begin starts a service and waits until it is ready.
func (c *cluster) begin(t *testing.T, service string) {
	t.Helper()
	if err := c.processes[service].Start(); err != nil {
		t.Fatal(err)
	}
	plane.Eventually(t, service+" to be ready", func(ctx context.Context) error {
		if err := c.processes[service].Died(); err != nil {
			t.Fatalf("%v\n%s", err, c.log(service))
		}
		return c.ready[service](ctx)
	})
}

// restart ends a service and starts it again.
func (c *cluster) restart(t *testing.T, service string) {
	t.Helper()
	c.processes[service].Stop()
	c.begin(t, service)
}

// stop ends everything in the reverse order. If the test has failed, it shows what each printed last.
func (c *cluster) stop(t *testing.T) {
	if c.operator != nil {
		c.operator.Stop()
	}
	names := services()
	for _, name := range slices.Backward(names) {
		if process := c.processes[name]; process != nil {
			process.Stop()
		}
	}
	if !t.Failed() {
		return
	}
	for _, name := range append([]string{"operator"}, names...) {
		t.Logf("%s printed at last:\n%s", name, c.log(name))
	}
}

// log returns the end of what a process has printed.
func (c *cluster) log(name string) string {
	const most = 20_000
	data, err := os.ReadFile(filepath.Join(c.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-most):])
}

// stores returns an error unless etcd listens and, if there is an apiserver, that one reaches it.
func (c *cluster) stores(ctx context.Context, etcd string) error {
	if err := listens(ctx, etcd); err != nil {
		return err
	}
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return nil // It has not started yet.
	}
	return c.serves(ctx)
}

func (c *cluster) serves(ctx context.Context) error {
	if _, err := os.Stat(c.Kubeconfig()); err != nil {
		return err
	}
	out, err := c.Command(ctx, "get", "--raw", "/readyz").CombinedOutput()
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
