package chart_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/bus/embedded"
	"github.com/garboard/garboard/libs/pki/deployment"
	"github.com/garboard/garboard/test/e2e/plane"
)

// TestNATSConfiguration has nats-server parse each configuration that the chart renders, next to
// the files from `garboard init`, and starts the one that does not need other servers.
func TestNATSConfiguration(t *testing.T) {
	made := t.TempDir()
	if err := deployment.Fill(deployment.Config{Dir: made}); err != nil {
		t.Fatal(err)
	}
	for set, wantCluster := range map[string]bool{"default": true, "certmanager": false} {
		t.Run(set, func(t *testing.T) {
			text := natsConfiguration(t, set)
			if strings.Contains(text, "\ncluster {") != wantCluster {
				t.Errorf("got the wrong cluster section:\n%s", text)
			}
			dir := t.TempDir()
			for _, name := range []string{"server.crt", "server.key", "ca.crt", "nats-auth.conf", "route.crt", "route.key", "routes-ca.crt"} {
				data, err := os.ReadFile(filepath.Join(made, "nats", name))
				if err == nil {
					err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("POD_NAME", "demo-garboard-nats-0")
			// Use other ports and folders, and one dead route instead of names that do not resolve.
			text = strings.NewReplacer("0.0.0.0:4222", "127.0.0.1:-1", "0.0.0.0:4223", "127.0.0.1:-1", "0.0.0.0:6222", "127.0.0.1:-1", "http: 0.0.0.0:8222", "",
				"/etc/nats/", dir+"/", "/run/nats/", dir+"/", "/var/lib/nats", filepath.Join(dir, "store")).Replace(text)
			text = regexp.MustCompile(`(?m)^ *tls://.*$`).ReplaceAllString(text, "tls://127.0.0.1:1")
			file := filepath.Join(dir, "nats.conf")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			server, err := embedded.New(embedded.Config{File: file})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if wantCluster {
				return // it would wait for the other servers
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- server.Run(ctx) }()
			waiting, done := context.WithTimeout(ctx, plane.Patience)
			err = server.Ready(waiting)
			done()
			stop()
			if err := errors.Join(err, <-ended); err != nil {
				t.Errorf("%v\n%s", err, text)
			}
		})
	}
}

func natsConfiguration(t *testing.T, set string) string {
	t.Helper()
	for _, object := range rendered(t, set) {
		if text, _, _ := unstructured.NestedString(object.Object, "data", "nats.conf"); text != "" {
			return text
		}
	}
	t.Fatalf("%s has no nats.conf", set)
	return ""
}
