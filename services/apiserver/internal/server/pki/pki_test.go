package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func open(t *testing.T, dir string, hosts ...string) *pki.Keys {
	t.Helper()
	keys, err := pki.Open(dir, hosts, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestMadeOnceAndKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first := open(t, dir, "localhost", "10.0.0.1")
	token, err := pki.Token(dir, "system:kube-scheduler")
	if err != nil {
		t.Fatal(err)
	}
	second := open(t, dir, "10.0.0.1")
	if !first.CA.Equal(second.CA) || !first.ServiceAccounts.Equal(second.ServiceAccounts) || !first.Serving.Leaf.Equal(second.Serving.Leaf) {
		t.Error("the second start created new keys")
	}
	if again, err := pki.Token(dir, "system:kube-scheduler"); err != nil || again != token {
		t.Errorf("the token changed: %v", err)
	}
	third := open(t, dir, "10.0.0.1", "other.example")
	if third.Serving.Leaf.Equal(first.Serving.Leaf) {
		t.Error("the serving certificate lacks a name and was not renewed")
	}
	for _, name := range []string{"localhost", "10.0.0.1", "other.example"} {
		if err := third.Serving.Leaf.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(first.CA)
	if _, err := third.Serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost"}); err != nil {
		t.Error(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the mode %v (%v), want 0600", entry.Name(), info.Mode(), err)
		}
	}
}

func TestAdmin(t *testing.T) {
	dir := t.TempDir()
	if _, _, _, err := pki.Admin(dir); err == nil {
		t.Error("an administrator exists before the first start")
	}
	keys := open(t, dir)
	cert, key, ca, err := pki.Admin(dir)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		t.Fatal("there is no certificate of the authority")
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if subject := pair.Leaf.Subject; len(subject.Organization) != 1 || subject.Organization[0] != "system:masters" {
		t.Errorf("the administrator's subject is %v", subject)
	}
	if _, err := keys.Serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err == nil {
		t.Error("the serving certificate is valid for a client")
	}
}

func TestTokens(t *testing.T) {
	dir := t.TempDir()
	if _, err := pki.Token(dir, "system:kube-scheduler"); err == nil {
		t.Error("tokens exist before the first start")
	}
	open(t, dir)
	one, err := pki.Token(dir, "system:node:n1")
	if err != nil {
		t.Fatal(err)
	}
	two, err := pki.Token(dir, "system:node:n2")
	if err != nil || one == two || len(one) < 32 {
		t.Fatalf("the tokens of two nodes are %q and %q (%v)", one, two, err)
	}
	if again, err := pki.Token(dir, "system:node:n1"); err != nil || again != one {
		t.Errorf("the token of n1 changed: %v", err)
	}
	data, err := os.ReadFile(filepath.Join(dir, pki.TokenFile))
	if err != nil || !strings.Contains(string(data), one+",system:node:n1,system:node:n1,system:nodes\n") {
		t.Errorf("the token file is %s (%v)", data, err)
	}
	for _, service := range []string{"", "system:node:", "somebody"} {
		if _, err := pki.Token(dir, service); err == nil {
			t.Errorf("%q has a token", service)
		}
	}
}

func TestBusKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	first, err := pki.OpenBus(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := pki.OpenBus(dir)
	if err != nil || second.Issuer() != first.Issuer() || second.User() != first.User() || first.User() == first.Issuer() {
		t.Errorf("the second start created new keys (%v)", err)
	}
	config, err := os.ReadFile(filepath.Join(dir, pki.BusConfigFile))
	if err != nil || !strings.Contains(string(config), first.Issuer()) || strings.Contains(string(config), string(first.UserSeed())) {
		t.Errorf("the configuration is %s (%v)", config, err)
	}
	for _, name := range []string{"nats-issuer.seed", "nats-apiserver.seed"} {
		path := filepath.Join(dir, name)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is not private: %v", name, err)
		}
		if err := os.WriteFile(path, []byte("rubbish"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.OpenBus(dir); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("with a damaged %s: got %v", name, err)
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamaged checks that every damaged or missing file leads to an error that names it and says
// what to do, and that no file is silently replaced.
func TestDamaged(t *testing.T) {
	for _, name := range []string{"ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "admin.crt", "admin.key", "sa.key", "front-proxy-ca.crt", "front-proxy-ca.key", "front-proxy-client.crt", "front-proxy-client.key"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte("rubbish"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := pki.Open(dir, nil, quiet())
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove") {
				t.Errorf("got %v", err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != "rubbish" {
				t.Errorf("the file was replaced: %q %v", data, err)
			}
		})
	}
	for _, name := range []string{"ca.crt", "ca.key", "front-proxy-ca.crt", "front-proxy-ca.key"} {
		t.Run("without "+name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := pki.Open(dir, nil, quiet()); err == nil || !strings.Contains(err.Error(), name+" is missing") {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("another authority's key", func(t *testing.T) {
		dir, other := t.TempDir(), t.TempDir()
		open(t, dir)
		open(t, other)
		key, err := os.ReadFile(filepath.Join(other, "ca.key"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "ca.key"), key, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := pki.Open(dir, nil, quiet()); err == nil || !strings.Contains(err.Error(), "is not the key of") {
			t.Errorf("got %v", err)
		}
	})
}
