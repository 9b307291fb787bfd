package pki_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/pki"
)

// TestFileModes: only the owner may read a secret, whatever the mode of other files.
func TestFileModes(t *testing.T) {
	for _, c := range []struct {
		name    string
		files   pki.Files
		secrecy pki.Secrecy
		want    fs.FileMode
	}{
		{"a secret", pki.Files{}, pki.Secret, 0o600},
		{"a public file", pki.Files{}, pki.Public, 0o600},
		{"a secret among readable files", pki.Files{PublicMode: 0o644}, pki.Secret, 0o600},
		{"a public file among readable files", pki.Files{PublicMode: 0o644}, pki.Public, 0o644},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			// A file that everyone may read is replaced.
			if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
				t.Fatal(err)
			}
			if err := c.files.Write(path, []byte("new"), c.secrecy); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			data, readErr := os.ReadFile(path)
			if err != nil || readErr != nil || info.Mode().Perm() != c.want || string(data) != "new" {
				t.Errorf("the file has the mode %v and %q: %v, %v", info.Mode(), data, err, readErr)
			}
		})
	}
}

// TestFailedWritesLeaveNothing: a write that fails neither harms the old file nor leaves a part of
// the new one behind.
func TestFailedWritesLeaveNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "taken")
	if err := os.MkdirAll(filepath.Join(path, "by-a-directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (pki.Files{}).Write(path, []byte("secret"), pki.Secret); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("writing over a directory: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left are %v, %v", entries, err)
	}
	if err := (pki.Files{}).Write(filepath.Join(dir, "none", "f"), nil, pki.Public); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("writing to a directory that does not exist: %v", err)
	}
}

// TestKeys reads keys that are missing, foreign or damaged. None of them is replaced, and no error
// shows what is in the file.
func TestKeys(t *testing.T) {
	encoded := func(kind string, der []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	p256, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ec, ecErr := x509.MarshalECPrivateKey(p256)
	pkcs8, pkcs8Err := x509.MarshalPKCS8PrivateKey(p256)
	large, largeErr := x509.MarshalPKCS8PrivateKey(p384)
	for _, c := range []struct {
		name string
		data []byte
		good bool
	}{
		{"in SEC 1", encoded("EC PRIVATE KEY", ec, ecErr), true},
		{"in PKCS 8", encoded("PRIVATE KEY", pkcs8, pkcs8Err), true},
		{"after a comment", append([]byte("made by hand\n"), encoded("PRIVATE KEY", pkcs8, pkcs8Err)...), true},
		{"on another curve", encoded("PRIVATE KEY", large, largeErr), false},
		{"of RSA", encoded("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(foreign), nil), false},
		{"half of one", encoded("PRIVATE KEY", pkcs8, pkcs8Err)[:100], false},
		{"with wrong content", encoded("PRIVATE KEY", []byte("sesame"), nil), false},
		{"empty", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "k.key")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			key, outcome, err := pki.OpenKey(pki.Files{}, path, "all users must log in again")
			if (err == nil) != c.good || outcome != pki.Kept {
				t.Fatalf("got %v, %v", outcome, err)
			}
			if c.good && !key.Equal(p256) {
				t.Error("it is another key")
			}
			if !c.good && (!strings.Contains(err.Error(), path+" is damaged") || !strings.Contains(err.Error(), "all users must log in again") ||
				strings.Contains(err.Error(), "sesame")) {
				t.Errorf("the error is %v", err)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, c.data) {
				t.Errorf("the file was replaced: %v", err)
			}
		})
	}
	path := filepath.Join(t.TempDir(), "new.key")
	if _, err := pki.ReadKey(path, ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading a missing key: %v", err)
	}
	made, outcome, err := pki.OpenKey(pki.Files{PublicMode: 0o644}, path, "")
	again, err2 := pki.ReadKey(path, "")
	info, err3 := os.Stat(path)
	if err := errors.Join(err, err2, err3); err != nil || outcome != pki.Made || !made.Equal(again) || info.Mode().Perm() != 0o600 {
		t.Errorf("a new key: %v, %v", outcome, err)
	}
}

// TestBusKeys opens the keys for NATS again and again: they stay, what is missing is made, and the
// configuration for NATS follows them.
func TestBusKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := pki.ReadBus(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reading before they are made: %v", err)
	}
	contents := func() map[string]string {
		t.Helper()
		if _, err := pki.OpenBus(pki.Files{PublicMode: 0o644}, dir); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for name, mode := range map[string]fs.FileMode{pki.BusIssuerFile: 0o600, pki.BusUserFile: 0o600, pki.BusConfigFile: 0o644} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			info, statErr := os.Stat(filepath.Join(dir, name))
			if err != nil || statErr != nil || info.Mode().Perm() != mode {
				t.Errorf("%s has the mode %v: %v, %v", name, info.Mode(), err, statErr)
			}
			found[name] = string(data)
		}
		return found
	}
	first := contents()
	if strings.Contains(first[pki.BusConfigFile], strings.TrimSpace(first[pki.BusIssuerFile])) ||
		strings.Contains(first[pki.BusConfigFile], strings.TrimSpace(first[pki.BusUserFile])) {
		t.Error("the configuration for NATS has a private key")
	}
	second := contents()
	for name := range first {
		if first[name] != second[name] {
			t.Errorf("%s changed", name)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, pki.BusConfigFile), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if contents()[pki.BusConfigFile] != first[pki.BusConfigFile] {
		t.Error("a damaged configuration was not replaced")
	}
	if err := os.Remove(filepath.Join(dir, pki.BusUserFile)); err != nil {
		t.Fatal(err)
	}
	if now := contents(); now[pki.BusUserFile] == first[pki.BusUserFile] || now[pki.BusIssuerFile] != first[pki.BusIssuerFile] ||
		now[pki.BusConfigFile] == first[pki.BusConfigFile] {
		t.Error("a new key did not come, or its configuration did not")
	}
	if err := os.WriteFile(filepath.Join(dir, pki.BusUserFile), []byte("SUnonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pki.OpenBus(pki.Files{}, dir); err == nil || strings.Contains(err.Error(), "SUnonsense") {
		t.Errorf("with a damaged key: %v", err)
	}
}
