package apiserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/services/apiserver"
)

func TestStartFailsPlainly(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  apiserver.Config
		says string
	}{
		"empty":        {apiserver.Config{}, "no etcd server is set"},
		"bad address":  {apiserver.Config{Serving: apiserver.Serving{Listen: "x"}}, `"x", is not HOST:PORT`},
		"bad services": {apiserver.Config{ServiceCIDR: "x"}, "range of service addresses"},
	} {
		if _, err := apiserver.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, err := apiserver.New(apiserver.Config{
		Serving: apiserver.Serving{Listen: "127.0.0.1:0", CertDir: dir}, Etcd: apiserver.Etcd{Servers: []string{"http://127.0.0.1:1"}},
		Bus: apiserver.Bus{NATS: bus.Config{URLs: []string{"nats://127.0.0.1:1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "ca.crt is damaged") {
		t.Errorf("with a damaged certificate: got %v", err)
	}
}

// TestBadAccess: an invalid configuration is refused with everything that is wrong.
func TestBadAccess(t *testing.T) {
	for want, cfg := range map[string]apiserver.Config{
		"invalid audit log mode sometimes":                                    {Audit: apiserver.Audit{Mode: "sometimes"}},
		"audit-log-maxsize -1 can't be a negative number":                     {Audit: apiserver.Audit{MaxSize: -1}},
		"an issuer of service account tokens is empty":                        {Authentication: apiserver.Authentication{Issuers: []string{""}}},
		`"a" is set twice`:                                                    {Authentication: apiserver.Authentication{Issuers: []string{"a", "a"}}},
		`"%:" contains a ':' but is not a URL`:                                {Authentication: apiserver.Authentication{Issuers: []string{"%:"}}},
		"an audience of the API is empty":                                     {Authentication: apiserver.Authentication{Audiences: []string{""}}},
		"must be between 1 hour and 2^32 seconds":                             {Authentication: apiserver.Authentication{MaxTokenLife: time.Minute}},
		`the path "livez" for anonymous requests does not begin with a slash`: {Authentication: apiserver.Authentication{AnonymousPaths: []string{"livez"}}},
		"anonymous requests are refused altogether":                           {Authentication: apiserver.Authentication{AnonymousPaths: []string{"/livez"}, NoAnonymous: true}},
		"jwksURI requires https scheme":                                       {Authentication: apiserver.Authentication{KeysURI: "http://x"}},
	} {
		if _, err := apiserver.New(cfg); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "no etcd server is set") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestBadPolicy: the audit policy is read when the server starts, before it listens.
func TestBadPolicy(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: None}, {level: All}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		policy:       `policy.yaml: rules[1].level: Unsupported value: "All"`,
		policy + "x": "reading the audit policy",
	} {
		certs := filepath.Join(t.TempDir(), "certs")
		server, err := apiserver.New(apiserver.Config{
			Serving: apiserver.Serving{Listen: "127.0.0.1:0", CertDir: certs}, Etcd: apiserver.Etcd{Servers: []string{"http://127.0.0.1:1"}},
			Bus: apiserver.Bus{NATS: bus.Config{URLs: []string{"nats://127.0.0.1:1"}}}, Audit: apiserver.Audit{PolicyFile: path},
		})
		if err != nil {
			t.Errorf("New read the policy: %v", err)
			continue
		}
		if err := server.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if _, err := os.Stat(certs); err == nil {
			t.Error("certificates were created for a server that cannot start")
		}
	}
}
