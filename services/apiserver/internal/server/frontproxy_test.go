package server

import (
	"bytes"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/server/config"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
)

// TestFrontProxies checks which front proxies a server accepts, what it warns of, and what keeps it from starting.
func TestFrontProxies(t *testing.T) {
	for name, c := range map[string]struct {
		proxy                config.FrontProxy
		lacks                []string // files of the certificate directory
		warning, failure, ca string
	}{
		"the directory's":     {ca: "front-proxy-ca.crt"},
		"an older directory":  {lacks: []string{"front-proxy-ca.crt", "front-proxy-client.crt"}, warning: "run `garboard init` again"},
		"no certificate":      {lacks: []string{"front-proxy-client.crt"}, ca: "front-proxy-ca.crt", warning: "there is no client certificate of the front proxy"},
		"another authority":   {proxy: config.FrontProxy{ClientCAFile: "other.crt"}, ca: "other.crt", warning: "has not signed the front proxy's client certificate"},
		"the plane's, for us": {proxy: config.FrontProxy{ClientCAFile: "ca.crt", AllowedNames: []string{"x"}}, ca: "ca.crt", warning: "has not signed"},
		"the plane's":         {proxy: config.FrontProxy{ClientCAFile: "ca.crt"}, failure: "contain overlapping certificates; --requestheader-allowed-names must be specified"},
		"no file":             {proxy: config.FrontProxy{ClientCAFile: "none.crt"}, failure: "none.crt"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, elsewhere := t.TempDir(), t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			var log bytes.Buffer
			logger := slog.New(slog.NewTextHandler(&log, nil))
			for _, at := range []string{dir, elsewhere} {
				if _, err := pki.Open(at, nil, logger); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Rename(filepath.Join(elsewhere, "front-proxy-ca.crt"), in("other.crt")); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.lacks {
				if err := os.Remove(in(name)); err != nil {
					t.Fatal(err)
				}
			}
			keys, err := pki.Read(dir, in("apiserver.crt"), in("apiserver.key"), logger)
			if err != nil {
				t.Fatal(err)
			}
			clients, err := authn.NewAuthorities(keys.CA, "", logger)
			if err != nil {
				t.Fatal(err)
			}
			if c.proxy.ClientCAFile != "" {
				c.proxy.ClientCAFile = in(c.proxy.ClientCAFile)
			} else {
				c.proxy.AllowedNames = []string{"front-proxy-client"}
			}
			p := &plane{keys: keys, cfg: config.Config{
				Logger: logger, Serving: config.Serving{CertDir: dir}, Authentication: config.Authentication{FrontProxy: c.proxy},
			}}
			got, err := p.frontProxy(clients)
			if (err != nil) != (c.failure != "") || err != nil && !strings.Contains(err.Error(), c.failure) {
				t.Fatalf("got %v, want %q", err, c.failure)
			}
			if text := log.String(); !strings.Contains(text, c.warning) || (c.warning == "") != (text == "") || strings.Count(text, "\n") > 1 {
				t.Errorf("the log is %q, want %q", text, c.warning)
			}
			shown := published(got)
			if c.ca == "" {
				if got != nil || shown != nil {
					t.Errorf("there are front proxies: %+v", got)
				}
				return
			}
			want, err := os.ReadFile(in(c.ca))
			if err != nil {
				t.Fatal(err)
			}
			if certs := shown.CAs(); len(certs) != 1 || !bytes.Contains(want, []byte(pemOf(certs[0].Raw))) || len(shown.AllowedNames) != len(c.proxy.AllowedNames) {
				t.Errorf("published is %+v", shown)
			}
		})
	}
}

// pemOf returns a certificate as a PEM file has it.
func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}
