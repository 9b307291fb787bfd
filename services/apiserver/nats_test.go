package apiserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/client"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
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
	s := harness.Start(t)
	auth, err := apiserver.BusAuth(s.CertDir)
	if err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(s.CertDir, name) }
	for name, c := range map[string]struct {
		server embedded.Config
		admin  bool // is identified by a certificate
	}{
		"as documented":     {embedded.Config{File: documented(t, s.CertDir)}, false},
		"with certificates": {embedded.Config{Auth: auth, TLS: &embedded.TLS{CertFile: in("apiserver.crt"), KeyFile: in("apiserver.key"), ClientCAFile: in("ca.crt")}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			// Start a second apiserver on the same etcd, with the same keys.
			second := &harness.Server{T: t, CertDir: s.CertDir, Etcd: s.Etcd, Bus: bustest.NewServerWith(t, c.server)}
			second.Change = func(cfg *apiserver.Config) { cfg.Bus.NATS.CAFile = in("ca.crt") }
			second.Start()
			defer second.Stop()
			known := map[string]bus.Config{"by token": client.BusConfig(s.Service("system:kube-controller-manager"), bus.Config{Name: "controllers"})}
			if c.admin {
				known["by certificate"] = client.BusConfig(s.Admin(), bus.Config{Name: "admin"})
			}
			for how, cfg := range known {
				cfg.CAFile = in("ca.crt")
				conn := second.Bus.ConnectAs(cfg)
				if harness.Denied(t, conn, subject.Resource("", "secrets")) || !harness.Denied(t, conn, "gb.>") {
					t.Errorf("%s: the client has other rights than RBAC grants", how)
				}
				if outcome, why := harness.Asked(t, conn, &watchv1.Ask{Resource: "secrets"}); outcome != watchv1.Outcome_OUTCOME_WHOLE {
					t.Errorf("%s: asking for secrets: got %v %s", how, outcome, why)
				}
			}
		})
	}
}
