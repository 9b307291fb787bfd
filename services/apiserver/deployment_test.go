package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/client"
	deploy "github.com/garboard/garboard/libs/pki/deployment"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// deployed starts an apiserver with etcd and NATS, each with what `garboard init` creates for it,
// and each requiring client certificates.
func deployed(t *testing.T) (s *harness.Server, dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := deploy.Fill(deploy.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	// As in a volume that is mounted read-only.
	if err := os.Chmod(in("apiserver"), 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(in("apiserver"), 0o700) })
	etcd := etcdtest.StartTLS(t, etcdtest.TLS{
		CAFile: in("etcd/etcd-ca.crt"), CertFile: in("etcd/server.crt"), KeyFile: in("etcd/server.key"),
		PeerCertFile: in("etcd/peer.crt"), PeerKeyFile: in("etcd/peer.key"),
	})
	config := fmt.Sprintf(`listen: "127.0.0.1:0"
tls { cert_file: %q, key_file: %q, ca_file: %q, verify: true, timeout: 10 }
jetstream { store_dir: %q }
include %q
`, in("nats/server.crt"), in("nats/server.key"), in("nats/ca.crt"), t.TempDir(), "nats-auth.conf")
	if err := os.WriteFile(in("nats/nats.conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s = &harness.Server{T: t, CertDir: in("apiserver"), Etcd: etcd, Bus: bustest.NewServerWith(t, embedded.Config{File: in("nats/nats.conf")})}
	s.Change = func(cfg *apiserver.Config) {
		cfg.Serving.TLSCertFile, cfg.Serving.TLSKeyFile = in("apiserver/tls.crt"), in("apiserver/tls.key")
		cfg.Etcd.CAFile, cfg.Etcd.CertFile, cfg.Etcd.KeyFile = in("apiserver/etcd-ca.crt"), in("apiserver/etcd-client.crt"), in("apiserver/etcd-client.key")
		cfg.Bus.NATS.CAFile, cfg.Bus.NATS.CertFile, cfg.Bus.NATS.KeyFile = in("apiserver/ca.crt"), in("apiserver/nats-client.crt"), in("apiserver/nats-client.key")
	}
	s.Start()
	return s, dir
}

// loaded reads a kubeconfig, and replaces its address with the server's.
func loaded(s *harness.Server, kubeconfig string) *rest.Config {
	s.T.Helper()
	data, err := os.ReadFile(kubeconfig)
	if err != nil {
		s.T.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		s.T.Fatal(err)
	}
	config.Host, config.QPS = s.URL, -1
	return config
}

// TestDeployment: the output of `garboard init` is enough for a plane in which every connection
// uses TLS and every client has a certificate.
func TestDeployment(t *testing.T) {
	s, dir := deployed(t)
	in := func(name string) string { return filepath.Join(dir, name) }
	for kubeconfig, want := range map[string]string{
		"admin/kubeconfig": "kubernetes-admin", "controllers/kubeconfig": "system:kube-controller-manager", "scheduler/kubeconfig": "system:kube-scheduler",
	} {
		config := loaded(s, in(kubeconfig))
		res, body := s.Exchange(config, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, map[string]string{"Content-Type": "application/json"})
		if res.StatusCode != http.StatusCreated || !strings.Contains(body, `"username":"`+want+`"`) {
			t.Errorf("%s: got %d %s", kubeconfig, res.StatusCode, body)
		}
	}
	if res, body := s.Exchange(loaded(s, in("admin/kubeconfig")), http.MethodPost, "/api/v1/namespaces",
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"made"}}`, map[string]string{"Content-Type": "application/json"}); res.StatusCode != http.StatusCreated {
		t.Errorf("the administrator gets %d %s", res.StatusCode, body)
	}
	// NATS admits a client that presents a certificate, and asks the apiserver for its rights.
	scheduler := client.BusConfig(loaded(s, in("scheduler/kubeconfig")), bus.Config{Name: "scheduler"})
	scheduler.CAFile = in("scheduler/ca.crt")
	conn := s.Bus.ConnectAs(scheduler)
	if harness.Denied(t, conn, subject.Resource("", "pods")) || !harness.Denied(t, conn, subject.Resource("", "secrets")) {
		t.Error("the scheduler's rights differ from RBAC")
	}
	// NATS does not admit a client without a certificate, whatever its token.
	nobody := s.Bus.Config()
	nobody.CAFile, nobody.Token = in("scheduler/ca.crt"), "whatever"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if conn, err := bus.Connect(ctx, nobody); err == nil {
		conn.Close()
		t.Error("NATS admits a client without a certificate")
	}
}
