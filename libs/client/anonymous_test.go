package client_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/client"
)

// TestWithoutCredentials: nothing that could authenticate is left, in whatever form the file has
// it, and the apiserver can still be reached and verified.
func TestWithoutCredentials(t *testing.T) {
	const ca = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----\n"
	users := map[string]string{
		"token":       `token: needle`,
		"tokenFile":   `tokenFile: needle`,
		"certificate": `client-certificate-data: bmVlZGxl` + "\n    " + `client-key-data: bmVlZGxl`,
		"key file":    `client-certificate: needle.crt` + "\n    " + `client-key: needle.key`,
		"password":    `username: needle` + "\n    " + `password: needle`,
		"exec":        "exec: {apiVersion: client.authentication.k8s.io/v1, command: needle, interactiveMode: Never}",
	}
	for name, user := range users {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "ca.crt"), []byte(ca), 0o600); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "kubeconfig")
			text := `apiVersion: v1
kind: Config
current-context: x
contexts:
- {name: x, context: {cluster: c, user: u}}
- {name: other, context: {cluster: c, user: other}}
clusters:
- {name: c, cluster: {server: "https://192.0.2.1:6443", certificate-authority: ca.crt, tls-server-name: plane}}
users:
- name: other
  user: {token: needle}
- name: u
  user:
    ` + user + "\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := client.WithoutCredentials(path)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(got, []byte("needle")) || bytes.Contains(got, []byte("bmVlZGxl")) {
				t.Errorf("a credential is left:\n%s", got)
			}
			written := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(written, got, 0o600); err != nil {
				t.Fatal(err)
			}
			config, err := client.LoadConfig(written)
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != "https://192.0.2.1:6443" || string(config.CAData) != ca || config.ServerName != "plane" {
				t.Errorf("got %s, server name %q, CA %q", config.Host, config.ServerName, config.CAData)
			}
		})
	}
	if _, err := client.WithoutCredentials(filepath.Join(t.TempDir(), "none")); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a missing file: %v", err)
	}
	secret := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}], users: [{name: u, user: {token: t}}],
		clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443", proxy-url: "http://name:needle@192.0.2.2"}}]}`
	if err := os.WriteFile(secret, []byte(strings.ReplaceAll(text, "\t", "")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := client.WithoutCredentials(secret); err == nil || strings.Contains(err.Error(), "needle") {
		t.Errorf("a proxy with a password: %v", err)
	}
}
