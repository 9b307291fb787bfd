package apiserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// filled is a certificate directory as another program fills it for an apiserver: certDir, which
// lacks the authority's key, while the authority itself is elsewhere.
type filled struct {
	t         testing.TB
	certDir   string
	authority *pki.Authority
	cert, key string
}

func newFilled(t testing.TB) *filled {
	t.Helper()
	elsewhere, dir := t.TempDir(), t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	authority, _, err := pki.OpenAuthority(pki.Files{}, filepath.Join(elsewhere, "ca.crt"), filepath.Join(elsewhere, "ca.key"), "test-ca")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in("ca.crt"), authority.PEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := pki.OpenKey(pki.Files{}, in("sa.key"), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.OpenBus(pki.Files{}, dir); err != nil {
		t.Fatal(err)
	}
	f := &filled{t: t, certDir: dir, authority: authority, cert: in("tls.crt"), key: in("tls.key")}
	f.serving("127.0.0.1")
	return f
}

// serving issues the serving certificate for hosts.
func (f *filled) serving(hosts ...string) *x509.Certificate {
	f.t.Helper()
	pair, _, err := f.authority.Open(pki.Files{}, f.cert, f.key, pki.Leaf{Name: "kube-apiserver", Hosts: hosts, Use: pki.Server})
	if err != nil {
		f.t.Fatal(err)
	}
	return pair.Leaf
}

// files returns the files of the directory with their modification times.
func (f *filled) files() map[string]time.Time {
	f.t.Helper()
	entries, err := os.ReadDir(f.certDir)
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]time.Time{}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			f.t.Fatal(err)
		}
		all[entry.Name()] = info.ModTime()
	}
	return all
}

// TestServingCertificateFromElsewhere: with a serving certificate from elsewhere the directory is
// only read, and needs neither the authority's key nor tokens; a renewed certificate is used
// without a restart.
func TestServingCertificateFromElsewhere(t *testing.T) {
	t.Parallel()
	f := newFilled(t)
	before := f.files()
	auth, err := apiserver.BusAuth(f.certDir)
	if err != nil {
		t.Fatal(err)
	}
	s := &harness.Server{T: t, CertDir: f.certDir, Etcd: etcdtest.New(t), Bus: bustest.NewServerWith(t, embedded.Config{Auth: auth})}
	s.Change = func(cfg *apiserver.Config) { cfg.Serving.TLSCertFile, cfg.Serving.TLSKeyFile = f.cert, f.key }
	s.Start()
	cert, key, err := f.authority.Issue(pki.Leaf{Name: "somebody", Groups: []string{"system:masters"}, Use: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	admin := &rest.Config{Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: f.authority.PEM(), CertData: cert, KeyData: key}}
	if res, body := s.Exchange(admin, "GET", "/api/v1/namespaces/default", "", nil); res.StatusCode != http.StatusOK {
		t.Errorf("the administrator gets %d %s", res.StatusCode, body)
	}
	if after := f.files(); len(after) != len(before) {
		t.Errorf("the directory holds %v, before %v", after, before)
	} else {
		for name, at := range before {
			if !after[name].Equal(at) {
				t.Errorf("%s was written", name)
			}
		}
	}
	renewed := f.serving("127.0.0.1", "other.example")
	roots := x509.NewCertPool()
	roots.AddCert(f.authority.Certificate())
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "other.example"}}
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "https://"))
	if err != nil {
		t.Fatalf("the renewed certificate is not served: %v", err)
	}
	defer func() { _ = conn.Close() }()
	if shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0]; !shown.Equal(renewed) {
		t.Errorf("another certificate is served: %v", shown.DNSNames)
	}
}

// TestIncompleteFolder: the error for a missing file names the file and the program that creates
// it.
func TestIncompleteFolder(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"ca.crt": "have `garboard init` fill", "sa.key": "have `garboard init` fill",
		"tls.crt": "--tls-cert-file", "tls.key": "--tls-private-key-file", "nats-issuer.seed": "have `garboard init` fill",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFilled(t)
			auth, err := apiserver.BusAuth(f.certDir)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(f.certDir, name)
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			nats := bustest.NewServerWith(t, embedded.Config{Auth: auth})
			server, err := apiserver.New(apiserver.Config{
				Serving: apiserver.Serving{Listen: "127.0.0.1:0", CertDir: f.certDir, TLSCertFile: f.cert, TLSKeyFile: f.key},
				Etcd:    apiserver.Etcd{Servers: etcdtest.New(t)}, Bus: apiserver.Bus{NATS: nats.Config()}, Logger: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			err = server.Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
				t.Errorf("Run returns %v", err)
			}
			if _, err := os.Stat(path); err == nil {
				t.Error("the missing file was created")
			}
		})
	}
}

func TestHalfAServingCertificate(t *testing.T) {
	for _, cfg := range []apiserver.Config{{Serving: apiserver.Serving{TLSCertFile: "x"}}, {Serving: apiserver.Serving{TLSKeyFile: "x"}}} {
		cfg.Serving.Listen, cfg.Serving.CertDir, cfg.Etcd.Servers = "127.0.0.1:0", t.TempDir(), []string{"http://127.0.0.1:1"}
		cfg.Bus.NATS.URLs = []string{"nats://127.0.0.1:1"}
		if _, err := apiserver.New(cfg); err == nil || !strings.Contains(err.Error(), "--tls-private-key-file") {
			t.Errorf("%+v: got %v", cfg, err)
		}
	}
}
