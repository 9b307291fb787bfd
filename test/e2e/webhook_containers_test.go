//go:build containers

package e2e_test

import (
	"context"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// webhook asks a webhook in a pod, which the apiserver reaches by the pod's node.
func (c *cluster) webhook(t *testing.T) {
	c.nodes.List[0].Build(t, "hook", harness.Image{Repository: "library/hook", Tags: []string{"1"}, Path: "/hook", Entrypoint: []string{"/hook"}})
	chain, key, err := cert.GenerateSelfSignedCertKey("hook.default.svc", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{"tls.crt": chain, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	manifest, err := os.ReadFile("testdata/hook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.Must(t, "", "create", "secret", "tls", "hook", "--cert", filepath.Join(dir, "tls.crt"), "--key", filepath.Join(dir, "tls.key"))
	c.Must(t, strings.Replace(string(manifest), "CA_BUNDLE", base64.StdEncoding.EncodeToString(chain), 1), "create", "-f", "-")
	c.Must(t, "", "rollout", "status", "deployment/hook", "--timeout=3m")
	// It is asked, and can be reached.
	plane.Eventually(t, "the webhook to refuse", func(context.Context) error {
		res := c.Kubectl(t, "", "-n", "checked", "create", "configmap", "refused")
		if !strings.Contains(res.Stderr, `admission webhook "hook.example.com" denied the request: the pod refuses it`) {
			_ = c.Kubectl(t, "", "-n", "checked", "delete", "configmap", "refused", "--ignore-not-found")
			return errors.New(res.Stdout + res.Stderr)
		}
		return nil
	})
	c.Must(t, "", "-n", "checked", "create", "configmap", "fine")
}
