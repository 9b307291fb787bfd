package pki_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func authority(t *testing.T, dir string) *pki.Authority {
	t.Helper()
	a, _, err := pki.OpenAuthority(pki.Files{}, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"), "test-ca")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestLeafIsReissued checks when a certificate is reissued.
func TestLeafIsReissued(t *testing.T) {
	was := pki.Leaf{Name: "etcd", Hosts: []string{"etcd", "10.0.0.1"}, Use: pki.Server}
	for name, c := range map[string]struct {
		wants  pki.Leaf
		before func(t *testing.T, dir string)
		want   pki.Outcome
	}{
		"nothing":                    {wants: was, want: pki.Kept},
		"fewer names":                {wants: pki.Leaf{Name: "etcd", Hosts: []string{"etcd"}, Use: pki.Server}, want: pki.Kept},
		"an address in another form": {wants: pki.Leaf{Name: "etcd", Hosts: []string{"::ffff:10.0.0.1"}, Use: pki.Server}, want: pki.Kept},
		"a missing name":             {wants: pki.Leaf{Name: "etcd", Hosts: []string{"etcd-1"}, Use: pki.Server}, want: pki.Renewed},
		"a missing address":          {wants: pki.Leaf{Name: "etcd", Hosts: []string{"10.0.0.2"}, Use: pki.Server}, want: pki.Renewed},
		"a missing usage":            {wants: pki.Leaf{Name: "etcd", Use: pki.Peer}, want: pki.Renewed},
		"another user":               {wants: pki.Leaf{Name: "other", Use: pki.Server}, want: pki.Renewed},
		"a missing group":            {wants: pki.Leaf{Name: "etcd", Groups: []string{"g"}, Use: pki.Server}, want: pki.Renewed},
		"a missing key":              {wants: was, before: func(t *testing.T, dir string) { remove(t, dir, "tls.key") }, want: pki.Made},
		"a missing certificate":      {wants: was, before: func(t *testing.T, dir string) { remove(t, dir, "tls.crt") }, want: pki.Made},
		"another authority": {wants: was, want: pki.Renewed, before: func(t *testing.T, dir string) {
			remove(t, dir, "ca.crt")
			remove(t, dir, "ca.key")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
			first, outcome, err := authority(t, dir).Open(pki.Files{}, cert, key, was)
			if err != nil || outcome != pki.Made {
				t.Fatalf("first call: %v, %v", outcome, err)
			}
			if c.before != nil {
				c.before(t, dir)
			}
			a := authority(t, dir)
			second, outcome, err := a.Open(pki.Files{}, cert, key, c.wants)
			if err != nil || outcome != c.want || first.Leaf.Equal(second.Leaf) != (c.want == pki.Kept) {
				t.Fatalf("second call: %v, want %v, %v", outcome, c.want, err)
			}
			read, err := tls.LoadX509KeyPair(cert, key)
			if err != nil || !read.Leaf.Equal(second.Leaf) || !a.Good(read.Leaf, c.wants) {
				t.Errorf("the files hold another certificate: %v", err)
			}
			for _, host := range was.Hosts {
				if err := read.Leaf.VerifyHostname(host); err != nil && c.want == pki.Renewed {
					t.Errorf("a name was lost: %v", err)
				}
			}
			if !bytes.Equal(read.Certificate[1], a.Certificate().Raw) {
				t.Error("the authority's certificate does not follow the leaf")
			}
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// foreign writes an external authority into dir, which expires after life.
func foreign(t *testing.T, dir string, key crypto.Signer, life time.Duration) {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(life), KeyUsage: x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"ca.crt": {Type: "CERTIFICATE", Bytes: cert}, "ca.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestForeignAuthorities checks that an external authority with a key of any kind is accepted, that
// no certificate outlives it, and that an expired authority is an error.
func TestForeignAuthorities(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]crypto.Signer{"RSA": rsaKey, "P-384": ecKey} {
		dir := t.TempDir()
		foreign(t, dir, key, 60*24*time.Hour)
		a, outcome, err := pki.OpenAuthority(pki.Files{}, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"), "test-ca")
		if err != nil || outcome != pki.Kept || a.Certificate().Subject.CommonName != "another" {
			t.Fatalf("%s: %v, %v", name, outcome, err)
		}
		pair, _, err := a.Open(pki.Files{}, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), pki.Leaf{Name: "n", Use: pki.Client})
		if err != nil {
			t.Fatal(err)
		}
		if pair.Leaf.NotAfter.After(a.Certificate().NotAfter) {
			t.Errorf("%s: the certificate expires on %v, its authority on %v", name, pair.Leaf.NotAfter, a.Certificate().NotAfter)
		}
		// A certificate that expires soon is reissued.
		foreign(t, dir, key, pki.RenewBefore-time.Hour)
		soon, _, err := pki.OpenAuthority(pki.Files{}, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"), "test-ca")
		if err != nil {
			t.Fatal(err)
		}
		cert, _, err := soon.Issue(pki.Leaf{Name: "n", Use: pki.Client})
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(cert)
		if parsed, err := x509.ParseCertificate(block.Bytes); err != nil || soon.Good(parsed, pki.Leaf{Name: "n", Use: pki.Client}) {
			t.Errorf("%s: a certificate that expires soon is good (%v)", name, err)
		}
		foreign(t, dir, key, -time.Hour)
		if _, _, err := pki.OpenAuthority(pki.Files{}, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"), "test-ca"); err == nil || !strings.Contains(err.Error(), "expired on") {
			t.Errorf("%s: an expired authority: %v", name, err)
		}
	}
}

// TestPair checks that a certificate is reloaded when its files change, and only if they are valid.
func TestPair(t *testing.T) {
	dir := t.TempDir()
	a := authority(t, dir)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	var log bytes.Buffer
	if _, err := pki.NewPair("the serving certificate", cert, key, slog.New(slog.NewTextHandler(&log, nil))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without files: %v", err)
	}
	leaf := pki.Leaf{Name: "n", Hosts: []string{"one"}, Use: pki.Server}
	first, _, err := a.Open(pki.Files{}, cert, key, leaf)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := pki.NewPair("the serving certificate", cert, key, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	shows := func(what string, want tls.Certificate) {
		t.Helper()
		got, err := pair.Certificate(nil)
		if err != nil || !got.Leaf.Equal(want.Leaf) {
			t.Fatalf("%s: got another certificate (%v)", what, err)
		}
	}
	shows("at first", first)
	leaf.Hosts = []string{"two"}
	second, _, err := a.Open(pki.Files{}, cert, key, leaf)
	if err != nil {
		t.Fatal(err)
	}
	shows("renewed", second)
	oldKey, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	shows("with a damaged key", second)
	remove(t, dir, "tls.key")
	shows("without a key", second)
	if text := log.String(); strings.Count(text, "level=WARN") != 2 || !strings.Contains(text, "reloaded a certificate\" certificate=\"the serving certificate\"") {
		t.Errorf("the log is %s", text)
	}
	if err := os.WriteFile(key, oldKey, 0o600); err != nil {
		t.Fatal(err)
	}
	third, _, err := a.Open(pki.Files{}, cert, key, pki.Leaf{Name: "n", Hosts: []string{"three"}, Use: pki.Server})
	if err != nil {
		t.Fatal(err)
	}
	shows("with valid files", third)
}

func TestKubeconfig(t *testing.T) {
	a := authority(t, t.TempDir())
	cert, key, err := a.Issue(pki.Leaf{Name: "n", Groups: []string{"g"}, Use: pki.Client})
	if err != nil {
		t.Fatal(err)
	}
	want := pki.Kubeconfig{Server: "https://here:1", CA: a.PEM(), Cert: cert, Key: key}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := pki.ParseKubeconfig(data)
	if err != nil || got.Server != want.Server || !bytes.Equal(got.CA, want.CA) {
		t.Fatalf("%+v, %v", got, err)
	}
	if pair, err := got.Pair(); err != nil || !a.Good(pair.Leaf, pki.Leaf{Name: "n", Groups: []string{"g"}, Use: pki.Client}) {
		t.Errorf("got another certificate: %v", err)
	}
	for _, bad := range []string{"", "clusters: 3", "{}", "rubbish: here"} {
		if _, err := pki.ParseKubeconfig([]byte(bad)); err == nil {
			t.Errorf("%q is accepted as a kubeconfig", bad)
		}
	}
}

func TestReadAuthority(t *testing.T) {
	dir := t.TempDir()
	a := authority(t, dir)
	if cert, _, err := pki.ReadAuthority(filepath.Join(dir, "ca.crt")); err != nil || !cert.Equal(a.Certificate()) {
		t.Errorf("got another certificate: %v", err)
	}
	if _, _, err := a.Open(pki.Files{}, filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), pki.Leaf{Name: "n"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := pki.ReadAuthority(filepath.Join(dir, "tls.crt")); err == nil || !strings.Contains(err.Error(), "not a CA certificate") {
		t.Errorf("a leaf is accepted as an authority: %v", err)
	}
	if _, _, err := pki.ReadAuthority(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
