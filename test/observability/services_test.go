package observability_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/test/e2e/plane"
)

// patience bounds every wait, far beyond what anything takes on a slow machine.
const patience = 3 * time.Minute

// authTimeout bounds the time in which the apiserver authenticates a client of NATS.
const authTimeout = 8 * time.Second

// deployment is the four services as processes, with the test's own etcd and NATS.
type deployment struct {
	dir string
	// listen and host are the address of the apiserver, HOST:PORT, and its host, where NATS listens, too.
	listen, host string
	// certDir is the apiserver's folder of certificates, nats the URL of NATS.
	certDir, nats string
	// api is the administrator's access to the apiserver.
	api *rest.Config
	// targets are the addresses of /metrics, by the job that scrapes them.
	targets map[string][]string
	// authority, certificate and key are the files of the scraping client.
	authority, certificate, key string
}

// deploy starts everything, with two simulated nodes. The apiserver and NATS listen at an address, HOST:PORT, and its
// host.
func deploy(t *testing.T, address string) *deployment {
	t.Helper()
	dir := t.TempDir()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"apiserver", "controllers", "scheduler", "nodeagent"} {
		plane.Build(t, dir, service)
	}
	certDir := filepath.Join(dir, "pki")
	etcd, etcdMetrics := startEtcd(t, dir)
	d := &deployment{
		dir: dir, listen: address, host: host, certDir: certDir, nats: startNATS(t, certDir, host),
		targets: map[string][]string{"apiserver": {address}, "etcd": {etcdMetrics}},
	}
	start(t, filepath.Join(dir, "apiserver"), "--listen", address, "--cert-dir", certDir, "--etcd-servers", etcd, "--nats-insecure", "--nats-servers", d.nats)
	var kubeconfig []byte
	eventually(t, "the apiserver's certificates", func() (err error) {
		kubeconfig, err = apiserver.Kubeconfig(certDir, "https://"+address)
		return err
	})
	if d.api, err = clientcmd.RESTConfigFromKubeConfig(kubeconfig); err != nil {
		t.Fatal(err)
	}
	for _, s := range []struct{ service, user, node string }{
		{"controllers", "system:kube-controller-manager", ""}, {"scheduler", "system:kube-scheduler", ""},
		{"nodeagent", "system:node:one", "one"}, {"nodeagent", "system:node:two", "two"},
	} {
		health := plane.FreeAddress(t)
		args := []string{"--kubeconfig", d.userConfig(t, s.user), "--nats-insecure", "--nats-servers", d.nats, "--health-address", health}
		if s.node != "" {
			args = append(args, "--node-name", s.node, "--runtime", "simulated", "--data-dir", filepath.Join(dir, s.node))
		}
		if s.service == "controllers" {
			args = append(args, "--allocate-node-cidrs", "--cluster-cidr", "10.244.0.0/16")
		}
		start(t, filepath.Join(dir, s.service), args...)
		d.targets[s.service] = append(d.targets[s.service], health)
	}
	d.monitoring(t)
	return d
}

// monitoring creates the certificate of the scraping client, as in a deployment.
func (d *deployment) monitoring(t *testing.T) {
	t.Helper()
	certFile, keyFile := filepath.Join(d.certDir, "ca.crt"), filepath.Join(d.certDir, "ca.key")
	read := func(path string) []byte {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(data)
		if block == nil {
			t.Fatalf("%s is not PEM", path)
		}
		return block.Bytes
	}
	authority, err := x509.ParseCertificate(read(certFile))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := x509.ParsePKCS8PrivateKey(read(keyFile))
	if err != nil {
		if signer, err = x509.ParseECPrivateKey(read(keyFile)); err != nil {
			t.Fatal(err)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		Subject:     pkix.Name{CommonName: "system:garboard-monitoring", Organization: []string{"system:monitoring"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, authority, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	d.authority, d.certificate, d.key = certFile, filepath.Join(d.dir, "monitoring.crt"), filepath.Join(d.dir, "monitoring.key")
	for path, block := range map[string]*pem.Block{
		d.certificate: {Type: "CERTIFICATE", Bytes: der}, d.key: {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// userConfig writes a kubeconfig with a service's bearer token, which the service also presents to
// NATS.
func (d *deployment) userConfig(t *testing.T, user string) string {
	t.Helper()
	var config *rest.Config
	// The apiserver writes the tokens after the certificates.
	eventually(t, "the token of "+user, func() (err error) {
		config, err = apiserver.ServiceConfig(d.certDir, "https://"+d.listen, user)
		return err
	})
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

func startEtcd(t *testing.T, dir string) (endpoint, metrics string) {
	t.Helper()
	config := embed.NewConfig()
	config.Dir, config.LogLevel = filepath.Join(dir, "etcd"), "panic"
	client := url.URL{Scheme: "unix", Path: filepath.Join(dir, "c.sock")}
	peer := url.URL{Scheme: "unix", Path: filepath.Join(dir, "p.sock")}
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.Name + "=" + peer.String()
	metrics = plane.FreeAddress(t)
	config.ListenMetricsUrls = []url.URL{{Scheme: "http", Host: metrics}}
	server, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return "unix://" + client.Path, metrics
}

// startNATS runs a NATS at a host that admits the clients that the apiserver with this folder of certificates
// admits.
func startNATS(t *testing.T, certDir, host string) string {
	t.Helper()
	auth, err := apiserver.BusAuth(certDir)
	if err != nil {
		t.Fatal(err)
	}
	server, err := embedded.New(embedded.Config{Host: host, Port: embedded.RandomPort, StoreDir: t.TempDir(), Auth: auth, AuthTimeout: authTimeout})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("NATS ended with %v", err)
		}
	})
	if err := server.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return server.URL()
}

// start runs a program until the test ends.
func start(t *testing.T, program string, args ...string) {
	t.Helper()
	run(t, exec.CommandContext(context.WithoutCancel(t.Context()), program, args...))
}

// run runs a command until the test ends.
func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	program := filepath.Base(cmd.Path)
	var output lockedBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Errorf("ending %s: %v", program, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", program, err)
		}
		if t.Failed() {
			t.Logf("%s printed:\n%s", program, output.String())
		}
	})
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%s: %v", what, err)
		}
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
