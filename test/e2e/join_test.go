package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/pki/deployment"
	"github.com/garboard/garboard/test/e2e/plane"
)

// TestNodesJoin runs the services as in a deployment: each presents a certificate to the API and to
// NATS. The node starts with nothing but a bootstrap kubeconfig.
func TestNodesJoin(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, "init", name) }
	for _, service := range []string{"apiserver", "controllers", "scheduler", "nodeagent"} {
		plane.Build(t, dir, service)
	}
	address := plane.FreeAddress(t)
	err := deployment.Fill(deployment.Config{
		Dir: in(""), Server: "https://" + address, AdminServer: "https://" + address,
		APIServerHosts: []string{"127.0.0.1"}, NATSHosts: []string{"127.0.0.1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	etcd := startEtcd(t, dir)
	nats, joining := startStrictNATS(t, in("nats"))
	start(t, filepath.Join(dir, "apiserver"), "--listen", address, "--cert-dir", in("apiserver"),
		"--tls-cert-file", in("apiserver/tls.crt"), "--tls-private-key-file", in("apiserver/tls.key"),
		"--etcd-servers", etcd, "--nats-servers", nats, "--nats-ca-file", in("apiserver/ca.crt"),
		"--nats-cert-file", in("apiserver/nats-client.crt"), "--nats-key-file", in("apiserver/nats-client.key"))
	p := plane.At(plane.Binary(t), dir, in("admin/kubeconfig"))
	plane.Eventually(t, "the apiserver to be ready", func(context.Context) error {
		if res := p.Kubectl(t, "", "get", "--raw", "/readyz"); res.Code != 0 {
			return errors.New(res.Stderr)
		}
		return nil
	})
	for service, args := range map[string][]string{
		"controllers": {"--cluster-signing-cert-file", in("controllers/ca.crt"), "--cluster-signing-key-file", in("controllers/ca.key"),
			"--service-account-private-key-file", in("controllers/sa.key")},
		"scheduler": nil,
	} {
		start(t, filepath.Join(dir, service), append([]string{
			"--kubeconfig", in(service + "/kubeconfig"), "--nats-servers", nats, "--nats-ca-file", in(service + "/ca.crt"), "--health-address", "127.0.0.1:0",
		}, args...)...)
	}
	node := &joiningNode{
		t: t, program: filepath.Join(dir, "nodeagent"), dataDir: filepath.Join(dir, "node"), health: plane.FreeAddress(t),
		args: []string{"--node-name", "joiner", "--runtime", "simulated", "--nats-servers", nats},
	}
	node.start("--bootstrap-kubeconfig", withOtherAuthority(t, in("nodeagent/bootstrap-kubeconfig")))
	node.says(`is signed by "CN=garboard-ca"`)
	node.stop()

	// The bootstrap token does not exist yet.
	node.start("--bootstrap-kubeconfig", in("nodeagent/bootstrap-kubeconfig"))
	node.says("does not take the bootstrap token")
	token, err := os.ReadFile(in("admin/bootstrap-token"))
	if err != nil {
		t.Fatal(err)
	}
	id, secret, _ := strings.Cut(strings.TrimSpace(string(token)), ".")
	res := p.Garboard(t, "token", "create", "--kubeconfig", in("admin/kubeconfig"), "--token-file", in("admin/bootstrap-token"), "--ttl", "0")
	// The output of the command ends up in logs.
	if res.Code != 0 || !strings.Contains(res.Stdout, id) || strings.Contains(res.Stdout, secret) {
		t.Fatalf("token create: exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	if res := p.Garboard(t, "token", "list", "--kubeconfig", in("admin/kubeconfig")); !strings.Contains(res.Stdout, strings.TrimSpace(string(token))+"   <forever>") {
		t.Errorf("token list: exit code %d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	node.ready()
	expectSoon(t, p, `^joiner +Ready `, "get", "nodes", "--no-headers")
	expect(t, p, "", `created`, "create", "-f", "testdata/nginx.yaml")
	expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/nginx-deployment")
	expect(t, p, "", `^nginx-deployment-\S+ +1/1 +Running .* joiner `, "get", "po", "-l", "app=nginx", "-o", "wide", "--no-headers")
	expect(t, p, "", `system:bootstrap:`+id+` +\S+ +Approved,Issued`, "get", "csr", "--no-headers")
	// Logs travel over NATS.
	expectSoon(t, p, ``, "logs", "deployment/nginx-deployment")

	first := node.certificate()
	node.stop()
	// From now on the node reaches nothing but NATS.
	node.args = append(node.args, "--nats-bootstrap-servers", joining)
	for _, again := range []struct {
		what   string
		change func()
		by     string // the user that requests the next certificate
		server string // the address of the apiserver in the node's kubeconfig
	}{
		{"its folder is lost", func() { remove(t, filepath.Join(node.dataDir, "pki")) }, "system:bootstrap:" + id, nobody},
		{"its certificate expires soon", func() {
			node.replace(in("ca"), time.Now().Add(-99*time.Hour), time.Now().Add(time.Hour))
		}, "system:node:joiner", nobody},
		{"its certificate has expired", func() {
			node.replace(in("ca"), time.Now().Add(-99*time.Hour), time.Now().Add(-time.Hour))
		}, "system:bootstrap:" + id, ""},
	} {
		if output := p.Must(t, "", "delete", "csr", "--all"); output == "" {
			t.Errorf("%s: there was no request before", again.what)
		}
		again.change()
		node.start("--bootstrap-kubeconfig", withServer(t, in("nodeagent/bootstrap-kubeconfig"), again.server))
		expectSoon(t, p, again.by+` +\S+ +Approved,Issued`, "get", "csr", "--no-headers")
		node.ready()
		plane.Eventually(t, "the next certificate when "+again.what, func(context.Context) error {
			if next := node.certificate(); next.SerialNumber.Cmp(first.SerialNumber) == 0 || time.Until(next.NotAfter) < 24*time.Hour {
				return fmt.Errorf("it has the certificate of %v, which expires on %v", next.Subject, next.NotAfter)
			}
			return nil
		})
		first = node.certificate()
		// The node works with the new certificate.
		p.Must(t, "", "delete", "pod", "-l", "app=nginx", "--wait=false")
		expectSoon(t, p, `^(nginx-deployment-\S+ +1/1 +Running .* joiner .*\n?)+$`, "get", "po", "-l", "app=nginx", "-o", "wide", "--no-headers")
		expectSoon(t, p, ``, "logs", "deployment/nginx-deployment")
		expectSoon(t, p, `^over NATS\n$`, "exec", "deployment/nginx-deployment", "--", "echo", "over NATS")
		node.stop()
	}
	node.program, node.args[1] = filepath.Join(dir, "nodeagent"), "stranger"
	node.fails(`the certificate in `+filepath.Join(node.dataDir, "pki", "nodeagent-client-current.pem")+` is that of "system:node:joiner"`,
		"--bootstrap-kubeconfig", in("nodeagent/bootstrap-kubeconfig"))
}

// startStrictNATS runs a NATS that admits only clients with a certificate of the plane. Its
// configuration includes the file that init has written for it.
//
// joining is the address of its WebSocket listener, which takes clients without a certificate.
func startStrictNATS(t *testing.T, dir string) (servers, joining string) {
	t.Helper()
	path, listen := filepath.Join(dir, "nats.conf"), plane.FreeAddress(t)
	config := fmt.Sprintf(`
listen: "127.0.0.1:-1"
tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true }
jetstream { store_dir: %q }
no_fast_producer_stall: true
websocket { listen: %q, tls { cert_file: %q, key_file: %q } }
include "nats-auth.conf"
`, filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"), filepath.Join(dir, "ca.crt"), filepath.Join(dir, "data"),
		listen, filepath.Join(dir, "server.crt"), filepath.Join(dir, "server.key"))
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	server, _ := runNATS(t, embedded.Config{Port: embedded.RandomPort, StoreDir: filepath.Join(dir, "data"), File: path})
	return fmt.Sprintf("tls://127.0.0.1:%d", server.Port()), "wss://" + listen
}

// nobody is an address that refuses connections.
const nobody = "https://127.0.0.1:1"

// withServer writes a kubeconfig with another address of the apiserver, and returns its path.
func withServer(t *testing.T, path, server string) string {
	t.Helper()
	file := readKubeconfig(t, path)
	file.Server = server
	data, err := file.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readKubeconfig(t *testing.T, path string) pki.Kubeconfig {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := pki.ParseKubeconfig(data)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// withOtherAuthority writes a bootstrap kubeconfig with the address of this plane and the authority
// of another one, and returns its path.
func withOtherAuthority(t *testing.T, path string) string {
	t.Helper()
	other := t.TempDir()
	if err := deployment.Fill(deployment.Config{Dir: other}); err != nil {
		t.Fatal(err)
	}
	mixed := readKubeconfig(t, path)
	mixed.CA = readKubeconfig(t, filepath.Join(other, "nodeagent", "bootstrap-kubeconfig")).CA
	data, err := mixed.Encode()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(other, "mixed")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// joiningNode is a node agent that the test starts several times.
type joiningNode struct {
	t                        *testing.T
	program, dataDir, health string
	args                     []string
	cmd                      *exec.Cmd
	output                   *lockedBuffer
}

func (n *joiningNode) command(args ...string) *exec.Cmd {
	n.output = &lockedBuffer{}
	cmd := exec.Command(n.program, append(append([]string{"--data-dir", n.dataDir, "--health-address", n.health}, n.args...), args...)...)
	cmd.Stdout, cmd.Stderr = n.output, n.output
	return cmd
}

func (n *joiningNode) start(args ...string) {
	n.t.Helper()
	cmd, output := n.command(args...), n.output
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.cmd = cmd
	n.t.Cleanup(func() {
		if n.cmd == cmd {
			n.stop()
		}
		if n.t.Failed() {
			n.t.Logf("the node agent printed:\n%s", output.String())
		}
	})
}

func (n *joiningNode) stop() {
	n.t.Helper()
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		n.t.Errorf("ending the node agent: %v", err)
	}
	if err := n.cmd.Wait(); err != nil {
		n.t.Errorf("the node agent ended with %v", err)
	}
	n.cmd = nil
}

// fails runs a node agent that must exit by itself, with an error that contains want.
func (n *joiningNode) fails(want string, args ...string) {
	n.t.Helper()
	cmd := n.command(args...)
	if err := cmd.Run(); err == nil || !strings.Contains(n.output.String(), want) {
		n.t.Errorf("the node agent ended with %v and printed\n%s\nwant %s", err, n.output.String(), want)
	}
}

// answer returns the status code and body of /readyz.
func (n *joiningNode) answer(ctx context.Context) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.health+"/readyz", nil)
	if err != nil {
		return 0, "", err
	}
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

func (n *joiningNode) says(want string) {
	n.t.Helper()
	plane.Eventually(n.t, "the node agent to report why it is not ready", func(ctx context.Context) error {
		code, text, err := n.answer(ctx)
		if err == nil && (code != http.StatusServiceUnavailable || !strings.Contains(text, want)) {
			err = fmt.Errorf("/readyz returned %d %s", code, text)
		}
		return err
	})
	if !strings.Contains(n.output.String(), strings.ReplaceAll(want, `"`, `\"`)) {
		n.t.Errorf("its log does not contain %s:\n%s", want, n.output.String())
	}
}

func (n *joiningNode) ready() {
	n.t.Helper()
	plane.Eventually(n.t, "the node agent to be ready", func(ctx context.Context) error {
		code, text, err := n.answer(ctx)
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("/readyz returned %d %s", code, text)
		}
		return err
	})
}

func (n *joiningNode) path() string {
	return filepath.Join(n.dataDir, "pki", "nodeagent-client-current.pem")
}

func (n *joiningNode) certificate() *x509.Certificate {
	n.t.Helper()
	pair, err := tls.LoadX509KeyPair(n.path(), n.path())
	if err != nil {
		n.t.Fatal(err)
	}
	return pair.Leaf
}

// replace replaces the node's certificate with one of the given validity.
func (n *joiningNode) replace(authority string, begin, end time.Time) {
	n.t.Helper()
	ca, err := tls.LoadX509KeyPair(filepath.Join(authority, "ca.crt"), filepath.Join(authority, "ca.key"))
	if err != nil {
		n.t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		n.t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject: pkix.Name{CommonName: "system:node:joiner", Organization: []string{"system:nodes"}}, NotBefore: begin, NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca.Leaf, key.Public(), ca.PrivateKey)
	if err != nil {
		n.t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		n.t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(n.path(), text, 0o600); err != nil {
		n.t.Fatal(err)
	}
}

func remove(t *testing.T, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
}
