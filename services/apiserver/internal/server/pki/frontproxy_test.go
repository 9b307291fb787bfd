package pki_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	libpki "github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
)

// proxyFiles are the files of the front proxy.
func proxyFiles() []string {
	return []string{"front-proxy-ca.crt", "front-proxy-ca.key", "front-proxy-client.crt", "front-proxy-client.key"}
}

// proxyClient returns the certificate of ProxyClient.
func proxyClient(t *testing.T, keys *pki.Keys) *tls.Certificate {
	t.Helper()
	pair, err := keys.ProxyClient()
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestFrontProxy checks that the front proxy has an authority of its own, which a directory of an earlier
// version gets at the next start, and that both are kept.
func TestFrontProxy(t *testing.T) {
	dir := t.TempDir()
	before := open(t, dir)
	old := proxyClient(t, before)
	for _, name := range proxyFiles() {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	keys := open(t, dir)
	pair := proxyClient(t, keys)
	if !before.CA.Equal(keys.CA) || old.Leaf.Equal(pair.Leaf) {
		t.Error("the plane's authority is new, or the front proxy's certificate is not")
	}
	if name := pair.Leaf.Subject.CommonName; name != "front-proxy-client" || len(pair.Leaf.Subject.Organization) != 0 {
		t.Errorf("the front proxy is %v", pair.Leaf.Subject)
	}
	if err := keys.CheckProxyClient(keys.FrontProxyCA); err != nil {
		t.Error(err)
	}
	if pair.Leaf.CheckSignatureFrom(keys.CA) == nil {
		t.Error("the front proxy's certificate is of the plane's authority")
	}
	again := open(t, dir)
	if !proxyClient(t, again).Leaf.Equal(pair.Leaf) || !again.FrontProxyCA[0].Equal(keys.FrontProxyCA[0]) {
		t.Error("the next start created another front proxy")
	}
	if want := filepath.Join(dir, "front-proxy-ca.crt"); keys.FrontProxyCAFile != want {
		t.Errorf("the authority is in %s, want %s", keys.FrontProxyCAFile, want)
	}
}

// read reads a directory as one that another program has filled.
func read(t *testing.T, dir string) (*pki.Keys, error) {
	t.Helper()
	cert, key := pki.ServingFiles(dir)
	return pki.Read(dir, cert, key, quiet())
}

// TestReadFrontProxy checks what is read of a filled directory, with and without a front proxy.
func TestReadFrontProxy(t *testing.T) {
	dir := t.TempDir()
	made := open(t, dir)
	keys, err := read(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if !proxyClient(t, keys).Leaf.Equal(proxyClient(t, made).Leaf) || !keys.FrontProxyCA[0].Equal(made.FrontProxyCA[0]) {
		t.Error("another front proxy was read than is there")
	}
	path := filepath.Join(dir, "front-proxy-client.crt")
	if err := os.WriteFile(path, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, dir); err == nil || !strings.Contains(err.Error(), "the front proxy's client certificate from "+path) {
		t.Errorf("with a damaged certificate: %v", err)
	}
	for _, name := range proxyFiles() {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	keys, err = read(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if pair := proxyClient(t, keys); pair != nil || len(keys.FrontProxyCA) != 0 || keys.FrontProxyCAFile != "" {
		t.Errorf("a front proxy was read where there is none: %+v", keys)
	}
	if err := keys.CheckProxyClient(made.FrontProxyCA); err == nil || !strings.Contains(err.Error(), "there is no client certificate") {
		t.Errorf("without a certificate: %v", err)
	}
	if entries, err := filepath.Glob(filepath.Join(dir, "front-proxy-*")); err != nil || len(entries) != 0 {
		t.Errorf("reading created %v (%v)", entries, err)
	}
}

// TestProxyClientChanges checks that a renewed certificate is in use at once, and one from elsewhere in
// place of the directory's.
func TestProxyClientChanges(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	keys, other := open(t, dir), open(t, elsewhere)
	in := func(dir, name string) string { return filepath.Join(dir, name) }
	old := proxyClient(t, keys)
	authority, _, err := libpki.OpenAuthority(libpki.Files{}, in(dir, libpki.FrontProxyCAFile), in(dir, libpki.FrontProxyCAKeyFile), "")
	if err != nil {
		t.Fatal(err)
	}
	cert, key, err := authority.Issue(libpki.Leaf{Name: "next", Use: libpki.Client})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"front-proxy-client.crt": cert, "front-proxy-client.key": key} {
		if err := os.WriteFile(in(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Minute)
		if err := os.Chtimes(in(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if next := proxyClient(t, keys); next.Leaf.Equal(old.Leaf) || next.Leaf.Subject.CommonName != "next" {
		t.Error("a renewed certificate is not in use")
	}
	var log bytes.Buffer
	if err := keys.UseProxyClient(in(elsewhere, "front-proxy-client.crt"), in(elsewhere, "front-proxy-client.key"),
		slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if !proxyClient(t, keys).Leaf.Equal(proxyClient(t, other).Leaf) {
		t.Error("the certificate from elsewhere is not in use")
	}
	if err := keys.CheckProxyClient(keys.FrontProxyCA); err == nil || !strings.Contains(err.Error(), "has not signed") {
		t.Errorf("with a certificate of another authority: %v", err)
	}
	if err := keys.CheckProxyClient(nil); err == nil || !strings.Contains(err.Error(), "there is no authority") {
		t.Errorf("without an authority: %v", err)
	}
	if err := keys.UseProxyClient(in(elsewhere, "none.crt"), in(elsewhere, "none.key"), quiet()); err == nil {
		t.Error("files that are not there were read")
	}
}
