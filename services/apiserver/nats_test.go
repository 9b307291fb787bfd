package apiserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/client"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver"
)

// documented puts the documentation's nats-server configuration into a directory, with a
// certificate beside it.
func documented(t *testing.T, certDir string) string {
	t.Helper()
	dir := t.TempDir()
	for to, from := range map[string]string{
		"nats.conf": "../../docs/examples/nats/nats.conf", "nats-auth.conf": filepath.Join(certDir, "nats-auth.conf"),
		"server.crt": filepath.Join(certDir, "apiserver.crt"), "server.key": filepath.Join(certDir, "apiserver.key"),
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(strings.ReplaceAll(string(data), "/etc/nats/", dir+"/"), "0.0.0.0:", "127.0.0.1:")
		if err := os.WriteFile(filepath.Join(dir, to), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "nats.conf")
}

// TestServersWithTLS: the documented nats-server identifies clients by their tokens; one that
// requests certificates identifies them by those too.
func TestServersWithTLS(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	auth, err := apiserver.BusAuth(s.certDir)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(s.certDir, name) }
	for name, c := range map[string]struct {
		server embedded.Config
		admin  bool // is identified by a certificate
	}{
		"as documented":     {embedded.Config{File: documented(t, s.certDir)}, false},
		"with certificates": {embedded.Config{Auth: auth, TLS: &embedded.TLS{CertFile: in("apiserver.crt"), KeyFile: in("apiserver.key"), ClientCAFile: in("ca.crt")}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			// Start a second apiserver on the same etcd, with the same keys.
			second := &testServer{t: t, certDir: s.certDir, etcd: s.etcd, bus: bustest.NewServerWith(t, c.server)}
			second.change = func(cfg *apiserver.Config) { cfg.Bus.CAFile = in("ca.crt") }
			second.start()
			defer second.stop()
			known := map[string]bus.Config{"by token": client.BusConfig(s.service("system:kube-controller-manager"), bus.Config{Name: "controllers"})}
			if c.admin {
				known["by certificate"] = client.BusConfig(s.admin(), bus.Config{Name: "admin"})
			}
			for how, cfg := range known {
				cfg.CAFile = in("ca.crt")
				conn := second.bus.ConnectAs(cfg)
				if denied(t, conn, bus.ResourceSubject("", "secrets")) || !denied(t, conn, "gb.>") {
					t.Errorf("%s: the client has other rights than RBAC grants", how)
				}
				if outcome, why := asked(t, conn, &watchv1.Ask{Resource: "secrets"}); outcome != watchv1.Outcome_OUTCOME_WHOLE {
					t.Errorf("%s: asking for secrets: got %v %s", how, outcome, why)
				}
			}
		})
	}
}
